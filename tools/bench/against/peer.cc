#include "tools/bench/against/peer.h"

#include <cstdlib>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/nearest_name.h"

namespace rz {
namespace {

using Op = BenchOperation;

// glibc: nothing is given back to the system, so temporaries stay mapped, and malloc asks for huge
// pages.
constexpr char kKeepMemory[] =
    "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=34359738368:glibc.malloc.hugetlb=1";
constexpr char kKeptText[] = "huge pages, temporaries kept mapped";

// Forced algorithms are for large messages: for small ones the defaults are best.
constexpr int64_t kForcedMinBytes = int64_t{1} << 20;

struct ForcedAlgorithms {
  Op operation;
  const char* parameter;
  std::vector<int> numbers;
};

const std::vector<ForcedAlgorithms>& OpenMpiAlgorithms() {
  static const auto* const forced = new std::vector<ForcedAlgorithms>{
      {Op::kReduceScatter, "reduce_scatter_block", {3, 4}},  // halving, butterfly
      {Op::kAllReduce, "allreduce", {4, 5, 6}},              // ring, segmented ring, rabenseifner
      {Op::kAllGather, "allgather", {4}},                    // ring
  };
  return *forced;
}

bool EachRankHasAProcessor(const PeerPlace& place) { return place.ranks <= place.processors; }

std::vector<std::string> OpenMpiLauncher(const PeerPlace& place, bool out_of_the_box) {
  std::vector<std::string> launcher = {"mpirun.openmpi", "-np", absl::StrCat(place.ranks)};
  if (place.root_user) launcher.emplace_back("--allow-run-as-root");
  if (!EachRankHasAProcessor(place)) {
    launcher.insert(launcher.end(), {"--oversubscribe", "--bind-to", "none"});
  } else if (!out_of_the_box) {
    launcher.insert(launcher.end(), {"--bind-to", "core"});
  }
  if (!out_of_the_box) {
    launcher.insert(launcher.end(), {"-x", absl::StrCat("GLIBC_TUNABLES=", kKeepMemory)});
  }
  return launcher;
}

// A best setting of Open MPI with these MCA parameters.
PeerSetting OpenMpiBest(const PeerPlace& place, const std::string& text,
                        const std::vector<std::pair<std::string, std::string>>& parameters) {
  PeerSetting setting;
  setting.description =
      absl::StrCat(text, ", ", kKeptText, EachRankHasAProcessor(place) ? ", bound" : "");
  setting.launcher = OpenMpiLauncher(place, false);
  for (const auto& [name, value] : parameters) {
    setting.launcher.insert(setting.launcher.end(), {"--mca", name, value});
  }
  setting.flags = {"--huge"};
  return setting;
}

std::vector<PeerSetting> OpenMpiSettings(Op operation, const PeerPlace& place) {
  const std::vector<std::pair<std::string, std::string>> vader = {{"pml", "ob1"},
                                                                  {"btl", "vader,self"}};
  std::vector<PeerSetting> settings = {
      OpenMpiBest(place, "ob1 over vader", vader),
      OpenMpiBest(place, "ucx",
                  {{"pml", "ucx"}, {"pml_ucx_tls", "any"}, {"pml_ucx_devices", "any"}})};
  for (const ForcedAlgorithms& forced : OpenMpiAlgorithms()) {
    if (forced.operation != operation) continue;
    for (int number : forced.numbers) {
      auto parameters = vader;
      parameters.insert(
          parameters.end(),
          {{"coll_tuned_use_dynamic_rules", "1"},
           {absl::StrCat("coll_tuned_", forced.parameter, "_algorithm"), absl::StrCat(number)}});
      PeerSetting setting = OpenMpiBest(
          place, absl::StrCat("ob1 over vader, ", forced.parameter, " algorithm ", number),
          parameters);
      setting.min_bytes = kForcedMinBytes;
      settings.push_back(std::move(setting));
    }
  }
  return settings;
}

PeerSetting MpichSetting(const PeerPlace& place, bool out_of_the_box) {
  PeerSetting setting;
  setting.launcher = {"mpirun.mpich", "-n", absl::StrCat(place.ranks)};
  if (out_of_the_box) return setting;
  const bool bound = EachRankHasAProcessor(place);
  if (bound) setting.launcher.insert(setting.launcher.end(), {"-bind-to", "core"});
  setting.launcher.insert(setting.launcher.end(), {"-env", "GLIBC_TUNABLES", kKeepMemory});
  setting.description = absl::StrCat(kKeptText, bound ? ", bound" : "");
  setting.flags = {"--huge"};
  return setting;
}

PeerSetting GlooSetting(const PeerPlace& place, bool out_of_the_box) {
  PeerSetting setting;
  setting.flags = {"--ranks", absl::StrCat(place.ranks)};
  if (out_of_the_box) return setting;
  setting.environment = {{"GLIBC_TUNABLES", kKeepMemory}};
  setting.description = absl::StrCat("TCP on loopback, ", kKeptText);
  setting.flags.emplace_back("--huge");
  return setting;
}

}  // namespace

std::string_view NameOf(PeerLibrary peer) {
  switch (peer) {
    case PeerLibrary::kOpenMpi:
      return "openmpi";
    case PeerLibrary::kMpich:
      return "mpich";
    case PeerLibrary::kGloo:
      return "gloo";
  }
  return "unknown";
}

absl::StatusOr<std::vector<PeerLibrary>> ParsePeers(const std::string& names) {
  std::vector<PeerLibrary> peers;
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    std::vector<std::string> known;
    bool found = false;
    for (PeerLibrary peer : kAllPeers) {
      known.emplace_back(NameOf(peer));
      if (known.back() != name) continue;
      peers.push_back(peer);
      found = true;
    }
    if (found) continue;
    const std::string nearest = NearestName({name.data(), name.size()}, known);
    return absl::InvalidArgumentError(
        absl::StrCat("--against takes ", absl::StrJoin(known, ","), " or some of them, not '", name,
                     "'", nearest.empty() ? "" : absl::StrCat(": did you mean ", nearest, "?")));
  }
  return peers;
}

bool HasOperation(PeerLibrary peer, BenchOperation operation) {
  if (TraitsOf(operation).is_v) return false;
  if (peer != PeerLibrary::kGloo) return true;
  return operation == Op::kAllReduce || operation == Op::kReduceScatter ||
         operation == Op::kAllGather || operation == Op::kBroadcast;
}

std::string DefaultPeerFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != 0) return absl::StrCat(cache, "/ringzero/peers");
  const char* const home = std::getenv("HOME");
  return absl::StrCat(home == nullptr ? "" : home, "/.cache/ringzero/peers");
}

std::string ProgramOf(PeerLibrary peer, const PeerPlace& place) {
  return absl::StrCat(place.folder, "/coll_", std::string(NameOf(peer)));
}

std::vector<PeerSetting> SettingsOf(PeerLibrary peer, BenchOperation operation,
                                    const PeerPlace& place, bool out_of_the_box) {
  std::vector<PeerSetting> settings;
  PeerSetting plain;
  switch (peer) {
    case PeerLibrary::kOpenMpi:
      settings = OpenMpiSettings(operation, place);
      plain.launcher = OpenMpiLauncher(place, true);
      break;
    case PeerLibrary::kMpich:
      settings = {MpichSetting(place, false)};
      plain = MpichSetting(place, true);
      break;
    case PeerLibrary::kGloo:
      settings = {GlooSetting(place, false)};
      plain = GlooSetting(place, true);
      break;
  }
  if (out_of_the_box) {
    plain.out_of_the_box = true;
    plain.description = "out of the box";
    settings.push_back(std::move(plain));
  }
  for (PeerSetting& setting : settings) setting.peer = peer;
  return settings;
}

std::vector<std::string> CommandOf(const PeerSetting& setting, BenchOperation operation,
                                   const PeerPlace& place, const std::vector<int64_t>& sizes,
                                   absl::Duration budget, bool fresh) {
  std::vector<int64_t> taken;
  for (int64_t size : sizes) {
    if (size >= setting.min_bytes) taken.push_back(size);
  }
  if (taken.empty()) return {};
  std::vector<std::string> command = setting.launcher;
  command.insert(command.end(), {ProgramOf(setting.peer, place), std::string(NameOf(operation)),
                                 "--sizes", absl::StrJoin(taken, ","), "--budget",
                                 absl::StrCat(absl::ToInt64Microseconds(budget))});
  command.insert(command.end(), setting.flags.begin(), setting.flags.end());
  if (fresh) command.emplace_back("--fresh");
  return command;
}

absl::StatusOr<std::vector<PeerTime>> ParsePeerTimes(const std::string& output) {
  std::vector<PeerTime> times;
  for (const absl::string_view line : absl::StrSplit(output, '\n', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    PeerTime time;
    if (fields.size() != 4 || !absl::SimpleAtoi(fields[1], &time.size) ||
        (fields[2] != "in_place" && fields[2] != "out_of_place") ||
        !absl::SimpleAtod(fields[3], &time.time_us) || !(time.time_us > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected OPERATION SIZE PLACEMENT TIME, found '", line, "'"));
    }
    time.in_place = fields[2] == "in_place";
    times.push_back(time);
  }
  return times;
}

}  // namespace rz
