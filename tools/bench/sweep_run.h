// SweepRun: runs what a configuration asks for, line by line: for each operation, dtype, op, root
// and size, out of place and in place, checked and timed.
#ifndef RINGZERO_TOOLS_BENCH_SWEEP_RUN_H_
#define RINGZERO_TOOLS_BENCH_SWEEP_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/bench_config.h"
#include "tools/bench/call_memory.h"
#include "tools/bench/rank_exchange.h"
#include "tools/bench/results.h"
#include "tools/bench/subject.h"

namespace rz {

class SweepRun {
 public:
  // Takes lines without their newline; called on every rank with the same ones, all of which but
  // rank 0's are to be dropped.
  using Print = std::function<void(const std::string& line)>;

  // Everything outlives this.
  SweepRun(const BenchConfig* config, Subject* subject, RankExchange* exchange, CallMemory* memory,
           Print print)
      : config_(*config),
        subject_(*subject),
        exchange_(*exchange),
        memory_(*memory),
        print_(std::move(print)) {}

  // Prints a table an operation. `preface` stands below the first line of the first.
  //   the subject's errors; wrong results are none
  absl::Status Run(const std::vector<std::string>& preface);

  // Of the last cycle.
  const std::vector<ResultRow>& rows() const { return rows_; }
  // Elements that were not as they must be, of all cycles.
  int64_t wrong() const { return wrong_; }

 private:
  absl::Status RunOperation(BenchOperation operation);
  absl::Status RunRow(BenchOperation operation, ElementKind kind, int root, int64_t bytes);
  absl::StatusOr<ResultRow> MeasureRow(BenchOperation operation, ElementKind kind, int root,
                                       int64_t bytes);
  absl::Status LookForCliffs(size_t first);
  absl::StatusOr<HalfResult> RunHalf(const CallRequest& request);
  absl::StatusOr<double> RunLimit(CallRequest request);
  absl::StatusOr<int64_t> Check(const MeasuredCall& call);

  const BenchConfig& config_;
  Subject& subject_;
  RankExchange& exchange_;
  CallMemory& memory_;
  const Print print_;
  uint64_t seed_ = 0;  // of the last inputs: others for every check
  std::vector<ResultRow> rows_;
  int64_t wrong_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_SWEEP_RUN_H_
