// For each operation:
//   1. for each round, run every contender's settings one after the other, over all sizes, each
//      round beginning with another one: slow times of the machine fall on all alike
//   2. print the medians and the ratios within rounds
#include "tools/bench/against/against_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "tools/bench/result_files.h"

namespace rz {
namespace {

// A run lasts seconds; one that hangs does not keep the others waiting for ever.
constexpr absl::Duration kRunTimeout = absl::Minutes(10);

constexpr char kOutOfTheBox[] = "-default";

// A file in a folder of its own, both gone with this object.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string folder = (std::filesystem::temp_directory_path() / "rz_bench_XXXXXX").string();
    if (mkdtemp(folder.data()) != nullptr) folder_ = folder;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::string path() const { return absl::StrCat(folder_, "/results.json"); }
  bool ok() const { return !folder_.empty(); }

 private:
  std::string folder_;
};

std::vector<Contender> ContendersOf(const AgainstPlan& plan) {
  std::vector<Contender> contenders;
  for (const OwnSetting& own : plan.own) {
    contenders.push_back({own.name, ContenderKind::kOwn, {own.description}});
  }
  if (plan.limit) {
    contenders.push_back(
        {kLimitName, ContenderKind::kReference, {"each rank moves the bytes in its own memory"}});
  }
  for (PeerLibrary peer : plan.peers) {
    const std::string name(NameOf(peer));
    contenders.push_back({name, ContenderKind::kRival, {}});
    if (plan.out_of_the_box) {
      contenders.push_back({absl::StrCat(name, kOutOfTheBox), ContenderKind::kReference, {}});
    }
  }
  return contenders;
}

}  // namespace

std::vector<int64_t> ComparableSizes(const std::vector<int64_t>& sizes, int ranks) {
  const int64_t unit = int64_t{4} * ranks;
  std::set<int64_t> comparable;
  for (int64_t size : sizes) comparable.insert(std::max(unit, size / unit * unit));
  return {comparable.begin(), comparable.end()};
}

AgainstRun::AgainstRun(AgainstPlan plan, Runner runner, Print print)
    : plan_(std::move(plan)),
      runner_(std::move(runner)),
      print_(std::move(print)),
      comparison_(ContendersOf(plan_)) {
  plan_.sizes = ComparableSizes(plan_.sizes, plan_.place.ranks);
}

size_t AgainstRun::ContenderOf(const PeerSetting& setting) const {
  const std::string name =
      absl::StrCat(std::string(NameOf(setting.peer)), setting.out_of_the_box ? kOutOfTheBox : "");
  const std::vector<Contender>& contenders = comparison_.contenders();
  size_t index = 0;
  while (contenders[index].name != name) ++index;
  return index;
}

absl::Status AgainstRun::FindPeers() {
  std::vector<PeerLibrary> there;
  for (PeerLibrary peer : plan_.peers) {
    const std::string program = ProgramOf(peer, plan_.place);
    if (access(program.c_str(), X_OK) == 0) {
      there.push_back(peer);
      continue;
    }
    print_(absl::StrCat("# ", std::string(NameOf(peer)), ": left out, there is no ", program,
                        ": tools/setup --with peers && tools/bench/peers/build"));
  }
  if (there.empty()) {
    return absl::NotFoundError(
        absl::StrCat("--against: no peer's program is in ", plan_.place.folder,
                     ": tools/setup --with peers && tools/bench/peers/build"));
  }
  plan_.peers = there;
  comparison_ = Comparison(ContendersOf(plan_));
  return absl::OkStatus();
}

absl::Status AgainstRun::Run() {
  RZ_RETURN_IF_ERROR(FindPeers());
  for (BenchOperation operation : plan_.operations) RZ_RETURN_IF_ERROR(RunOperation(operation));
  for (const std::string& line : SettingLines(comparison_)) print_(line);
  return absl::OkStatus();
}

std::vector<AgainstRun::Entry> AgainstRun::EntriesFor(BenchOperation operation) {
  std::vector<Entry> entries(plan_.own.size());
  for (size_t i = 0; i < entries.size(); ++i) entries[i].contender = i;
  for (PeerLibrary peer : plan_.peers) {
    if (!HasOperation(peer, operation)) continue;
    for (PeerSetting& setting : SettingsOf(peer, operation, plan_.place, plan_.out_of_the_box)) {
      Entry entry;
      entry.contender = ContenderOf(setting);
      entry.setting = comparison_.Setting(entry.contender, setting.description);
      entry.peer = std::move(setting);
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

absl::Status AgainstRun::RunOperation(BenchOperation operation) {
  std::vector<Entry> entries = EntriesFor(operation);
  if (entries.size() == plan_.own.size()) {
    print_(absl::StrCat("# ", std::string(NameOf(operation)), ": no peer has it"));
    return absl::OkStatus();
  }
  for (int round = 0; round < plan_.rounds; ++round) {
    for (size_t i = 0; i < entries.size(); ++i) {
      Entry& entry = entries[(i + static_cast<size_t>(round)) % entries.size()];
      if (entry.contender < plan_.own.size()) {
        RZ_RETURN_IF_ERROR(RunOwn(entry.contender, operation, round));
        continue;
      }
      if (entry.failed) continue;
      const absl::Status status = RunPeer(entry, operation, round);
      if (status.ok()) continue;
      entry.failed = true;
      print_(absl::StrCat("# ", comparison_.contenders()[entry.contender].name, " (",
                          entry.peer.description, "): left out of ", std::string(NameOf(operation)),
                          ": ", status.message()));
    }
  }
  for (bool in_place : {false, true}) {
    const std::string table = ComparisonTable(comparison_, operation, in_place);
    if (!table.empty()) print_(absl::StrCat(table, "#"));
  }
  return absl::OkStatus();
}

absl::Status AgainstRun::RunOwn(size_t own, BenchOperation operation, int round) {
  const TemporaryFile file;
  if (!file.ok()) return absl::UnavailableError("no temporary folder can be made");
  std::vector<std::string> command = plan_.own[own].command;
  command.insert(command.end(),
                 {std::string(NameOf(operation)), "-np", absl::StrCat(plan_.place.ranks), "--sizes",
                  absl::StrJoin(plan_.sizes, ","), "--budget", absl::FormatDuration(plan_.budget),
                  plan_.fresh ? "--fresh" : "--batches", "--json", file.path()});
  const bool limit = plan_.limit && own == 0;
  if (limit) command.emplace_back("--limit");
  RZ_RETURN_IF_ERROR(runner_(command, {}, kRunTimeout).status());
  std::ifstream stream(file.path());
  const std::string json((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  RZ_ASSIGN_OR_RETURN(const std::vector<ResultRow> rows, ParseResults(json));
  for (const ResultRow& row : rows) {
    for (bool in_place : {false, true}) {
      const std::optional<HalfResult>& half = in_place ? row.in_place : row.out_of_place;
      if (!half.has_value()) continue;
      const ComparedPoint point = {operation, in_place, row.size_bytes};
      comparison_.Add(own, 0, round, point, half->time_us);
      if (limit && row.limit_us) {
        comparison_.Add(plan_.own.size(), 0, round, point, *row.limit_us);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status AgainstRun::RunPeer(const Entry& entry, BenchOperation operation, int round) {
  const std::vector<std::string> command =
      CommandOf(entry.peer, operation, plan_.place, plan_.sizes, plan_.budget, plan_.fresh);
  if (command.empty()) return absl::OkStatus();
  RZ_ASSIGN_OR_RETURN(const std::string output,
                      runner_(command, entry.peer.environment, kRunTimeout));
  RZ_ASSIGN_OR_RETURN(const std::vector<PeerTime> times, ParsePeerTimes(output));
  for (const PeerTime& time : times) {
    comparison_.Add(entry.contender, entry.setting, round, {operation, time.in_place, time.size},
                    time.time_us);
  }
  return absl::OkStatus();
}

}  // namespace rz
