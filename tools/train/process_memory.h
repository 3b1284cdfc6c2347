// What the operating system says that the ranks' processes hold, beside what the ledger counts:
// their resident memory (RSS), and their proportional share of it (PSS), in which a page that k
// processes map counts as a k-th of a page for each. Code and the memory that ranks share are such
// pages, so the PSS of all ranks of a host adds up to what they take of it. What of it is files
// (code) changes when another job comes that runs the same program, or goes.
#ifndef RINGZERO_TOOLS_TRAIN_PROCESS_MEMORY_H_
#define RINGZERO_TOOLS_TRAIN_PROCESS_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/memory_report.h"
#include "tools/train/over_ranks.h"

namespace rz {

struct ProcessMemory {
  int64_t pss_bytes = 0;
  int64_t pss_of_files_bytes = 0;  // 0 where an older system does not tell
  int64_t rss_bytes = 0;
};

// Of the text of /proc/PID/smaps_rollup; nothing where it is none.
std::optional<ProcessMemory> ParseSmapsRollup(std::string_view text);

// Of this process now; nothing where the system does not tell.
std::optional<ProcessMemory> ReadProcessMemory();

// Looks at it now and then: a moment's peak between two looks is not seen.
class ProcessMemorySamples {
 public:
  // Looks.
  void Take();

  // As the last look saw it, and the most that any did. Nothing where the system does not tell.
  const std::optional<ProcessMemory>& now() const { return now_; }
  const std::optional<ProcessMemory>& peak() const { return peak_; }

 private:
  std::optional<ProcessMemory> now_;
  std::optional<ProcessMemory> peak_;
};

using BytesOverRanks = OverRanks<int64_t>;

struct ProcessMemoryOverRanks {
  BytesOverRanks pss;
  BytesOverRanks pss_of_files;
  BytesOverRanks pss_peak;
  BytesOverRanks rss;
  BytesOverRanks rss_peak;
};

// Collective; fails with the communicator's first cause. Nothing where some rank's system does not
// tell.
absl::StatusOr<std::optional<ProcessMemoryOverRanks>> MemoryOverRanks(
    const ProcessMemorySamples& samples, Communicator* communicator);

// What a run of a shape held.
struct ShapeProcessMemory {
  ModelShape shape;
  ProcessMemoryOverRanks memory;
};

// A table: a row for each run with the model states by the formula, then mean and most of PSS and
// RSS over ranks, and of PSS the mean of files; where the first run is of ddp, what each has less
// than it, by the formula and of PSS. At least one.
std::string RenderProcessMemory(absl::Span<const ShapeProcessMemory> runs);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_PROCESS_MEMORY_H_
