// The optimizers by name, their numbers, and what those say to the elements in one step.
#ifndef RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_CONFIG_H_
#define RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "optimizer/kernels/update_rule.h"

namespace rz {

enum class OptimizerKind : uint8_t { kAdamW, kAdam, kSgd, kLion, kAdagrad };
inline constexpr OptimizerKind kAllOptimizers[] = {OptimizerKind::kAdamW, OptimizerKind::kAdam,
                                                   OptimizerKind::kSgd, OptimizerKind::kLion,
                                                   OptimizerKind::kAdagrad};

// "AdamW", "Adam", "SGD", "Lion", "Adagrad"; parsed in any case.
std::string_view NameOf(OptimizerKind kind);
std::optional<OptimizerKind> ParseOptimizerKind(std::string_view name);
std::ostream& operator<<(std::ostream& os, OptimizerKind kind);

// The defaults here are AdamW's; DefaultsOf gives each optimizer's.
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;

  // Of a step that is not given another one and has no schedule.
  double learning_rate = 1e-3;

  // Decoupled from the gradient in AdamW and Lion, a part of it (L2) in the others.
  double weight_decay = 0.01;

  // AdamW and Adam: decay of the moments. Lion: of the direction and of the momentum.
  double beta1 = 0.9;
  double beta2 = 0.999;

  // AdamW, Adam and Adagrad: what the root is kept away from zero with.
  double epsilon = 1e-8;

  // AdamW and Adam: whether the moments' start at zero is made up for.
  bool bias_correction = true;

  // SGD. Without momentum it has no state.
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  // Adagrad: lr / (1 + (step - 1) * learning_rate_decay).
  double learning_rate_decay = 0;
};

// As PyTorch has them, and for Lion its paper.
OptimizerConfig DefaultsOf(OptimizerKind kind);

//   InvalidArgument  names the field, its value and what it may be
absl::Status ValidateOptimizer(const OptimizerConfig& config);

// Everything in it, floating-point numbers as bits: equal texts give equal steps.
std::string Fingerprint(const OptimizerConfig& config);

UpdateRule RuleOf(const OptimizerConfig& config);

// Float32 states an element has beside its master weight: bytes a parameter are 4 + 4 * states.
size_t StateCount(const OptimizerConfig& config);

struct StepNumbers {
  double learning_rate = 0;
  int64_t step = 1;       // from 1
  double grad_scale = 1;  // unscaling and clipping in one factor
};

// Computed in double and rounded to float32 once.
StepConstants ConstantsOf(const OptimizerConfig& config, const StepNumbers& numbers);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_CONFIG_H_
