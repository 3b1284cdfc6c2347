// --compare: the same run with every stage, one after the other, and what they cost side by side.
#ifndef RINGZERO_TOOLS_TRAIN_COMPARISON_H_
#define RINGZERO_TOOLS_TRAIN_COMPARISON_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "runtime/base/clock.h"
#include "tools/train/dataset.h"
#include "tools/train/progress.h"
#include "tools/train/run_report.h"
#include "tools/train/train_config.h"

namespace rz {

// Memory, wire, time and weights of each run, as tables for people. At least one report.
std::string RenderComparison(absl::Span<const RunReport> reports);

// Whether runs with deterministic sums have the same weights, as those with equally many groups of
// ranks must: groups round their sums otherwise than all ranks together.
//   Internal  they do not; the message has both stages and checksums
absl::Status CheckSameWeights(absl::Span<const RunReport> reports);

// Runs them on all ranks; prints a line a stage and the tables. `step` is that of the run under
// way.
//   Internal   as CheckSameWeights, where sums are deterministic
//   otherwise  as TrainingRun
absl::Status CompareStages(const TrainConfig& config, const Dataset& dataset,
                           Communicator* communicator, const std::string& transport,
                           Progress* progress, const Clock* clock, int64_t* step);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_COMPARISON_H_
