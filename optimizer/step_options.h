// What a step is told, and the learning rates that follow from it.
#ifndef RINGZERO_OPTIMIZER_STEP_OPTIONS_H_
#define RINGZERO_OPTIMIZER_STEP_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "optimizer/zero_config.h"

namespace rz {

struct StepOptions {
  // Learning rate of this step, the same on all ranks: each group's before its lr_scale, also where
  // the group has a rate of its own. Where it is not set, what the schedule says.
  std::optional<double> learning_rate = std::nullopt;

  // Or each group's as it is, [groups]; not both. Read before StartStep returns.
  absl::Span<const double> group_learning_rates = {};
};

// Sets rates[g] to group g's learning rate in the step after `steps_taken` others. `rates` has one
// element for each of the config's groups. Allocates nothing.
//   InvalidArgument  a rate that is not finite or negative; both kinds of options, or not one a
//   group
absl::Status SetLearningRates(const StepOptions& options, const ZeroConfig& config,
                              int64_t steps_taken, absl::Span<double> rates);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STEP_OPTIONS_H_
