#include "optimizer/step_options.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace rz {

absl::Status SetLearningRates(const StepOptions& options, const ZeroConfig& config,
                              int64_t steps_taken, absl::Span<double> rates) {
  const absl::Span<const double> given = options.group_learning_rates;
  if (!given.empty() && (options.learning_rate || given.size() != rates.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("group_learning_rates has ", given.size(), " rates",
                     options.learning_rate ? " beside a learning_rate" : "", "; give one a group (",
                     rates.size(), "), or learning_rate alone"));
  }
  for (size_t group = 0; group < rates.size(); ++group) {
    double rate = given.empty() ? 0 : given[group];
    if (given.empty()) {
      rate = options.learning_rate ? *options.learning_rate * config.groups[group].lr_scale
                                   : ScheduledRate(config, group, steps_taken);
    }
    if (!(rate >= 0) || !std::isfinite(rate)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "learning rate is ", rate, group == 0 ? "" : absl::StrCat(" in group ", group),
          "; it must be finite and at least 0"));
    }
    rates[group] = rate;
  }
  return absl::OkStatus();
}

}  // namespace rz
