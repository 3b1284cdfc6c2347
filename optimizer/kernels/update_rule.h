// The rules by which optimizers update a parameter, and the constants of one step. No Abseil here:
// the kernels of every SIMD level include this (see simd_library.bzl).
//
// A new optimizer is one file in rules/ with the arithmetic and its number of states, a name here,
// a line in optimizer_kernel_table.cc and a row in optimizer_config.cc; memory, its report and the
// stages take the number of states from there.
#ifndef RINGZERO_OPTIMIZER_KERNELS_UPDATE_RULE_H_
#define RINGZERO_OPTIMIZER_KERNELS_UPDATE_RULE_H_

#include <cstddef>
#include <cstdint>

namespace rz {

enum class UpdateRule : uint8_t {
  kAdamW,
  kAdam,      // weight decay as a part of the gradient (L2)
  kSgd,       // without momentum
  kMomentum,  // SGD with momentum
  kNesterov,  // SGD with Nesterov's momentum
  kLion,
  kAdagrad,
};
inline constexpr size_t kUpdateRuleCount = 7;

// The most float32 states of a rule beside the master weight.
inline constexpr size_t kMaxOptimizerStates = 2;

// What one step tells every element, rounded to float32 once. Each rule reads what it needs.
struct StepConstants {
  float grad_scale = 1;  // unscaling and clipping in one factor
  float weight_decay = 0;
  float decay = 1;      // 1 - lr * weight_decay
  float step_size = 0;  // lr, or lr / bias_correction1
  float beta1 = 0;
  float one_minus_beta1 = 1;
  float beta2 = 0;
  float one_minus_beta2 = 1;
  float inverse_root_2 = 1;  // 1 / sqrt(bias_correction2)
  float eps = 0;
  float momentum = 0;
  float one_minus_dampening = 1;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_KERNELS_UPDATE_RULE_H_
