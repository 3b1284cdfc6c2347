// The libraries ringzero is compared with, and how each is run: at its best settings, and out of
// the box. The programs that call them are in tools/bench/peers.
#ifndef RINGZERO_TOOLS_BENCH_AGAINST_PEER_H_
#define RINGZERO_TOOLS_BENCH_AGAINST_PEER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/bench/against/child.h"
#include "tools/bench/operation.h"

namespace rz {

enum class PeerLibrary : uint8_t { kOpenMpi, kMpich, kGloo };
inline constexpr PeerLibrary kAllPeers[] = {PeerLibrary::kOpenMpi, PeerLibrary::kMpich,
                                            PeerLibrary::kGloo};
std::string_view NameOf(PeerLibrary peer);

// "openmpi,gloo".
//   InvalidArgument  an unknown name; the message has the nearest
absl::StatusOr<std::vector<PeerLibrary>> ParsePeers(const std::string& names);

// Whether the peer's program has the operation.
bool HasOperation(PeerLibrary peer, BenchOperation operation);

// One way to run a peer.
struct PeerSetting {
  PeerLibrary peer = PeerLibrary::kOpenMpi;
  bool out_of_the_box = false;
  std::string description;            // what is set
  std::vector<std::string> launcher;  // stands before the program
  std::vector<std::string> flags;     // of the program
  ChildEnvironment environment;
  int64_t min_bytes = 0;  // smaller sizes are not run with it
};

// Where and with how many ranks.
struct PeerPlace {
  std::string folder;  // of the programs
  int ranks = 2;
  int processors = 2;
  bool root_user = false;
};

// $XDG_CACHE_HOME/ringzero/peers or ~/.cache/ringzero/peers: where peers/build puts the programs.
std::string DefaultPeerFolder();
std::string ProgramOf(PeerLibrary peer, const PeerPlace& place);

// The settings tried for an operation, the best ones first; with `out_of_the_box` also that one.
std::vector<PeerSetting> SettingsOf(PeerLibrary peer, BenchOperation operation,
                                    const PeerPlace& place, bool out_of_the_box);

// The command that measures `sizes` (ascending; those below the setting's least are left out: empty
// where none is left).
std::vector<std::string> CommandOf(const PeerSetting& setting, BenchOperation operation,
                                   const PeerPlace& place, const std::vector<int64_t>& sizes,
                                   absl::Duration budget, bool fresh);

// What a program has printed.
struct PeerTime {
  int64_t size = 0;
  bool in_place = false;
  double time_us = 0;
};
//   InvalidArgument  a line that is none of it
absl::StatusOr<std::vector<PeerTime>> ParsePeerTimes(const std::string& output);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_AGAINST_PEER_H_
