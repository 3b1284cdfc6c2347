// AgainstRun: measures ringzero and its peers in turn, round after round, each in processes of its
// own, with one method (measurement.h: batches, or fresh).
#ifndef RINGZERO_TOOLS_BENCH_AGAINST_AGAINST_RUN_H_
#define RINGZERO_TOOLS_BENCH_AGAINST_AGAINST_RUN_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/bench/against/child.h"
#include "tools/bench/against/comparison.h"
#include "tools/bench/against/peer.h"
#include "tools/bench/operation.h"

namespace rz {

// The contender that stands for what moving the bytes costs (`--limit`).
inline constexpr char kLimitName[] = "limit";

struct OwnSetting {
  std::string name;
  std::string description;
  // This program and the flags that say how ringzero is to run (not what, nor how it is measured).
  std::vector<std::string> command;
};

struct AgainstPlan {
  std::vector<BenchOperation> operations;
  std::vector<int64_t> sizes;  // as asked for
  std::vector<PeerLibrary> peers;
  bool out_of_the_box = false;
  int64_t rounds = 3;
  absl::Duration budget;
  bool fresh = false;
  bool limit = false;  // beside the peers
  PeerPlace place;

  // Ways to run ringzero, at least one; the others are compared with the first.
  std::vector<OwnSetting> own;
};

// `sizes` as every contender can have them: ascending multiples of 4 bytes a rank.
std::vector<int64_t> ComparableSizes(const std::vector<int64_t>& sizes, int ranks);

class AgainstRun {
 public:
  using Print = std::function<void(const std::string& line)>;
  // As RunChild; another one in tests.
  using Runner = std::function<absl::StatusOr<std::string>(
      const std::vector<std::string>&, const ChildEnvironment&, absl::Duration)>;

  AgainstRun(AgainstPlan plan, Runner runner, Print print);

  // Prints a table an operation and placement. A peer that is not there or fails is left out, with
  // a line that says why.
  //   NotFound   none of the peers is there
  //   otherwise  ringzero's own failure
  absl::Status Run();

  const Comparison& comparison() const { return comparison_; }

 private:
  // One way of running one contender.
  struct Entry {
    size_t contender = 0;
    size_t setting = 0;
    PeerSetting peer;  // of contenders that are not ours
    bool failed = false;
  };

  absl::Status FindPeers();
  absl::Status RunOperation(BenchOperation operation);
  absl::Status RunOwn(size_t own, BenchOperation operation, int round);
  absl::Status RunPeer(const Entry& entry, BenchOperation operation, int round);
  std::vector<Entry> EntriesFor(BenchOperation operation);
  size_t ContenderOf(const PeerSetting& setting) const;

  AgainstPlan plan_;
  const Runner runner_;
  const Print print_;
  Comparison comparison_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_AGAINST_AGAINST_RUN_H_
