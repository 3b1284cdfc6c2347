// ParameterGroup: the parameters of a model that the optimizer treats alike: their learning rate,
// weight decay and averages, and whether they are trained at all.
//
// A parameter names its group by number (ParamSpec::group); group 0 is what no other asks for. As
// in PyTorch's param_groups, a group has the optimizer's numbers but for those it sets itself. The
// learning rate of a group in a step is
//
//     schedule(the group's own rate, or the optimizer's) * lr_scale
//
// so with a constant schedule and the cosine a rate of its own is where the group's rates begin,
// and where the schedule has a rate of its own (WarmupLR's maximum) that is every group's, as
// DeepSpeed does it.
#ifndef RINGZERO_OPTIMIZER_PARAMETER_GROUP_H_
#define RINGZERO_OPTIMIZER_PARAMETER_GROUP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/kernels/optimizer_config.h"

namespace rz {

struct ParameterGroup {
  // Where set, in place of the optimizer's. Betas are for the optimizers that have them.
  std::optional<double> learning_rate = std::nullopt;
  double lr_scale = 1;
  std::optional<double> weight_decay = std::nullopt;
  std::optional<double> beta1 = std::nullopt;
  std::optional<double> beta2 = std::nullopt;
  std::optional<double> epsilon = std::nullopt;
};

// The optimizer's numbers as they are for the group.
OptimizerConfig OptimizerOf(const OptimizerConfig& optimizer, const ParameterGroup& group);

//   InvalidArgument  names the group, the field, its value and what it may be
absl::Status ValidateGroups(const OptimizerConfig& optimizer,
                            const std::vector<ParameterGroup>& groups);

// Everything they set, floating-point numbers as bits.
std::string Fingerprint(const std::vector<ParameterGroup>& groups);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_PARAMETER_GROUP_H_
