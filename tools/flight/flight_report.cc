#include "tools/flight/flight_report.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace rz {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

const FlightEntry* Find(const FlightRecord& record, int64_t number) {
  const auto at = std::lower_bound(
      record.entries.begin(), record.entries.end(), number,
      [](const FlightEntry& entry, int64_t wanted) { return entry.number < wanted; });
  return at != record.entries.end() && at->number == number ? &*at : nullptr;
}

// Some rank's account of an operation.
const FlightEntry* FindAnywhere(absl::Span<const FlightRecord> records, int64_t number) {
  for (const FlightRecord& record : records) {
    if (const FlightEntry* entry = Find(record, number)) return entry;
  }
  return nullptr;
}

// Text from a file, without what could move a terminal's cursor.
std::string Printable(const std::string& text) {
  std::string printable = text;
  for (char& c : printable) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return printable;
}

std::string CallText(const FlightEntry& entry) {
  std::string text = Printable(entry.kind);
  if (!entry.dtype.empty())
    absl::StrAppend(&text, " of ", entry.count, " ", Printable(entry.dtype));
  if (!entry.op.empty()) absl::StrAppend(&text, " ", Printable(entry.op));
  if (entry.root >= 0) {
    const bool towards = entry.kind == "reduce" || entry.kind == "gather";
    absl::StrAppend(&text, towards ? " to root " : " from root ", entry.root);
  }
  return text;
}

// "all_gather #41".
std::string Name(const FlightEntry& entry) {
  return absl::StrCat(Printable(entry.kind), " #", entry.number);
}

// ", step 2, waiting for rank 2".
std::string WaitText(const FlightEntry& entry) {
  if (entry.position.lane < 0) return "";
  std::string text = absl::StrCat(", step ", entry.position.round);
  if (entry.position.peer >= 0) {
    absl::StrAppend(&text, ", waiting for rank ", entry.position.peer);
  }
  return text;
}

const FlightEntry* FirstUnfinished(const FlightRecord& record) {
  for (const FlightEntry& entry : record.entries) {
    if (entry.state != FlightState::kDone) return &entry;
  }
  return nullptr;
}

bool HasFailed(const FlightRecord& record) {
  return std::any_of(record.entries.begin(), record.entries.end(),
                     [](const FlightEntry& entry) { return entry.state == FlightState::kFailed; });
}

// "it is in reduce_scatter #40, step 2, waiting for rank 2".
std::string Whereabouts(const FlightRecord& record) {
  if (const FlightEntry* entry = FirstUnfinished(record)) {
    return absl::StrCat(entry->state == FlightState::kFailed ? "it failed in " : "it is in ",
                        Name(*entry), WaitText(*entry));
  }
  if (record.entries.empty()) return "it has called nothing";
  return absl::StrCat("its last one, ", Name(record.entries.back()), ", is done");
}

// The first operation that two ranks account for differently.
struct Mismatch {
  int64_t number = kNever;
  int rank_a = 0;
  int rank_b = 0;
  const FlightEntry* a = nullptr;
  const FlightEntry* b = nullptr;
};

Mismatch FirstMismatch(absl::Span<const FlightRecord> records) {
  Mismatch first;
  for (size_t r = 1; r < records.size(); ++r) {
    for (const FlightEntry& entry : records[r].entries) {
      if (entry.number >= first.number) break;
      for (size_t other = 0; other < r; ++other) {
        const FlightEntry* theirs = Find(records[other], entry.number);
        if (theirs == nullptr) continue;
        if (theirs->call_hash != entry.call_hash) {
          first = {entry.number, records[other].rank, records[r].rank, theirs, &entry};
        }
        break;
      }
    }
  }
  return first;
}

std::string MismatchText(const Mismatch& mismatch) {
  std::string text = absl::StrCat("operation ", mismatch.number, ": rank ", mismatch.rank_a,
                                  " called ", CallText(*mismatch.a), ", rank ", mismatch.rank_b,
                                  " called ", CallText(*mismatch.b));
  if (CallText(*mismatch.a) == CallText(*mismatch.b)) {
    absl::StrAppend(&text, ", with other options or after other calls");
  }
  return text;
}

// When the first rank called it, as far as the records go back.
absl::Time FirstStart(absl::Span<const FlightRecord> records, int64_t number) {
  absl::Time first = absl::InfiniteFuture();
  for (const FlightRecord& record : records) {
    const FlightEntry* const entry = Find(record, number);
    if (entry != nullptr) first = std::min(first, entry->started);
  }
  return first;
}

std::string MissingText(absl::Span<const FlightRecord> records, int64_t number) {
  const FlightEntry* const call = FindAnywhere(records, number);
  const absl::Time first = FirstStart(records, number);
  const std::string name = call == nullptr ? absl::StrCat("operation #", number) : Name(*call);
  std::vector<std::string> lines;
  for (const FlightRecord& record : records) {
    if (record.last_number >= number) continue;
    const bool older = call != nullptr && record.taken < first;
    lines.push_back(
        absl::StrCat("rank ", record.rank, " has not called ", name, "; ", Whereabouts(record),
                     older ? " (but its record is older than anybody's call of it)" : ""));
  }
  return absl::StrJoin(lines, "\n");
}

std::string UnfinishedText(absl::Span<const FlightRecord> records, const FlightEntry& operation) {
  std::vector<std::string> lines;
  for (const FlightRecord& record : records) {
    const FlightEntry* const entry = Find(record, operation.number);
    if (entry == nullptr || entry->state == FlightState::kDone) continue;
    lines.push_back(absl::StrCat(
        "rank ", record.rank, entry->state == FlightState::kFailed ? " failed in it" : " is in it",
        WaitText(*entry)));
  }
  const bool are_all = static_cast<int>(records.size()) == records.front().world_size;
  return absl::StrCat(are_all ? "all ranks" : "all of these ranks", " have called ",
                      Name(operation), "; ", absl::StrJoin(lines, "\n"));
}

std::string OrDash(bool shown, const std::string& text) { return shown ? text : "-"; }

}  // namespace

std::string DescribeDivergence(absl::Span<const FlightRecord> records) {
  const Mismatch mismatch = FirstMismatch(records);
  int64_t least = kNever;
  int64_t least_by_itself = kNever;
  int64_t most = 0;
  for (const FlightRecord& record : records) {
    least = std::min(least, record.last_number);
    most = std::max(most, record.last_number);
    if (!HasFailed(record)) least_by_itself = std::min(least_by_itself, record.last_number);
  }
  // A rank that failed was kept from calling by what others had found.
  if (mismatch.number != kNever && mismatch.number - 1 <= least_by_itself) {
    return MismatchText(mismatch);
  }
  if (least < most) return MissingText(records, least + 1);
  const FlightEntry* unfinished = nullptr;
  for (const FlightRecord& record : records) {
    const FlightEntry* const entry = FirstUnfinished(record);
    if (entry != nullptr && (unfinished == nullptr || entry->number < unfinished->number)) {
      unfinished = entry;
    }
  }
  if (unfinished != nullptr) return UnfinishedText(records, *unfinished);
  return absl::StrCat(
      "no divergence: ", records.size() == 1 ? "the rank is" : "these ranks are all",
      " through with operation ", most);
}

std::string DescribeRecords(absl::Span<const FlightRecord> records) {
  const FlightRecord& first = records.front();
  std::string text =
      absl::StrCat("job ", Printable(first.job), ", communicator ", first.communicator, ", ",
                   records.size(), " of ", first.world_size, " ranks\n");
  for (const FlightRecord& record : records) {
    absl::StrAppend(&text, "rank ", record.rank, ": taken ",
                    absl::FormatTime("%Y-%m-%d %H:%M:%E3S", record.taken, absl::UTCTimeZone()),
                    " UTC, ", Printable(record.reason), "\n");
  }
  constexpr size_t kNamed = 16;
  std::vector<std::string> missing;
  size_t at = 0;
  for (int rank = 0; rank < first.world_size && missing.size() <= kNamed; ++rank) {
    if (at < records.size() && records[at].rank == rank) {
      ++at;
    } else {
      missing.push_back(missing.size() < kNamed ? absl::StrCat(rank) : "...");
    }
  }
  if (!missing.empty()) {
    absl::StrAppend(&text, "no file of rank ", absl::StrJoin(missing, ", "),
                    ": what is said below is without ", missing.size() == 1 ? "it" : "them", "\n");
  }
  return text;
}

std::string OperationTable(absl::Span<const FlightRecord> records, int last) {
  std::string text =
      absl::StrFormat("%4s %10s  %-48s %-8s %5s %5s %10s  %-12s %12s\n", "rank", "operation",
                      "call", "state", "lane", "step", "waits for", "started", "took (us)");
  for (const FlightRecord& record : records) {
    const size_t shown = std::min(record.entries.size(), static_cast<size_t>(last));
    for (size_t i = record.entries.size() - shown; i < record.entries.size(); ++i) {
      const FlightEntry& entry = record.entries[i];
      const bool waits = entry.state != FlightState::kDone && entry.position.lane >= 0;
      const bool over = entry.ended != absl::InfiniteFuture();
      absl::StrAppendFormat(
          &text, "%4d %10d  %-48s %-8s %5s %5s %10s  %-12s %12s\n", record.rank, entry.number,
          CallText(entry), std::string(NameOf(entry.state)),
          OrDash(waits, absl::StrCat(entry.position.lane)),
          OrDash(waits, absl::StrCat(entry.position.round)),
          OrDash(waits && entry.position.peer >= 0, absl::StrCat("rank ", entry.position.peer)),
          absl::FormatTime("%H:%M:%E3S", entry.started, absl::UTCTimeZone()),
          OrDash(over,
                 absl::StrFormat("%.1f", absl::ToDoubleMicroseconds(entry.ended - entry.started))));
    }
  }
  return text;
}

}  // namespace rz
