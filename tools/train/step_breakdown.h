// Where the time of a run's steps went, over all ranks: how even they are, and whom the others wait
// for.
#ifndef RINGZERO_TOOLS_TRAIN_STEP_BREAKDOWN_H_
#define RINGZERO_TOOLS_TRAIN_STEP_BREAKDOWN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/step_timeline.h"
#include "tools/train/over_ranks.h"

namespace rz {

// The parts of a step, in the order of StepPart; then the step, which is their sum; then hidden
// communication, which is not among them.
inline constexpr size_t kBreakdownRows = kStepPartCount + 2;
inline constexpr size_t kStepRow = kStepPartCount;
inline constexpr size_t kHiddenRow = kStepPartCount + 1;

// What tables and reports call a row: "forward", "step", "hidden communication".
std::string_view BreakdownRowName(size_t row);

// Milliseconds a step: each rank's mean over the steps, then over ranks.
using TimeOverRanks = OverRanks<double>;

struct StepBreakdown {
  int world = 0;
  int64_t steps = 0;
  std::array<TimeOverRanks, kBreakdownRows> rows;
};

// `sums` has each rank's times over `steps` steps, at least one of both.
StepBreakdown BreakDown(absl::Span<const StepTimes> sums, int64_t steps);

// The same of all ranks' sums. Collective; fails with the communicator's first cause.
absl::StatusOr<StepBreakdown> BreakDownOverRanks(const StepTimes& sum, int64_t steps,
                                                 Communicator* communicator);

// A table: a row each, and for every label mean, min and max with its rank. At least one breakdown.
std::string RenderBreakdowns(
    absl::Span<const std::pair<std::string, StepBreakdown>> labelled_breakdowns);

// "forward 1.2 (most 1.3, rank 0), ...": one line of a single step.
std::string DescribeBreakdown(const StepBreakdown& breakdown);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_STEP_BREAKDOWN_H_
