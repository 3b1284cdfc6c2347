#include "optimizer/parameter_group.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace rz {

OptimizerConfig OptimizerOf(const OptimizerConfig& optimizer, const ParameterGroup& group) {
  OptimizerConfig own = optimizer;
  own.learning_rate = group.learning_rate.value_or(own.learning_rate);
  own.weight_decay = group.weight_decay.value_or(own.weight_decay);
  own.beta1 = group.beta1.value_or(own.beta1);
  own.beta2 = group.beta2.value_or(own.beta2);
  own.epsilon = group.epsilon.value_or(own.epsilon);
  return own;
}

absl::Status ValidateGroups(const OptimizerConfig& optimizer,
                            const std::vector<ParameterGroup>& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    const double scale = groups[i].lr_scale;
    absl::Status status = ValidateOptimizer(OptimizerOf(optimizer, groups[i]));
    if (status.ok() && (!(scale >= 0) || !std::isfinite(scale))) {
      status = absl::InvalidArgumentError(
          absl::StrCat("lr_scale is ", scale, "; it must be finite and at least 0"));
    }
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("parameter group ", i, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

std::string Fingerprint(const std::vector<ParameterGroup>& groups) {
  std::string text;
  for (const ParameterGroup& group : groups) {
    absl::StrAppend(&text, "scale ", absl::Hex(std::bit_cast<uint64_t>(group.lr_scale)));
    for (const std::optional<double>& number :
         {group.learning_rate, group.weight_decay, group.beta1, group.beta2, group.epsilon}) {
      absl::StrAppend(&text, " ",
                      number ? absl::StrCat(absl::Hex(std::bit_cast<uint64_t>(*number))) : "unset");
    }
    absl::StrAppend(&text, ";");
  }
  return text;
}

}  // namespace rz
