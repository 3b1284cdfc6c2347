// Lion. State: m.
//
// For element i (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, program 1):
//
//   g = gradient[i] * grad_scale
//   c = beta1 * m + (1 - beta1) * g
//   p = p - lr * (sign(c) + weight_decay * p)
//   m = beta2 * m + (1 - beta2) * g
#ifndef RINGZERO_OPTIMIZER_KERNELS_RULES_LION_H_
#define RINGZERO_OPTIMIZER_KERNELS_RULES_LION_H_

#include "optimizer/kernels/rules/rule_math.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

class LionRule {
 public:
  static constexpr size_t kStates = 1;

  RZ_SIMD_INLINE explicit LionRule(const StepConstants& c)
      : grad_scale_(F32{} + c.grad_scale),
        beta1_(F32{} + c.beta1),
        one_minus_beta1_(F32{} + c.one_minus_beta1),
        beta2_(F32{} + c.beta2),
        one_minus_beta2_(F32{} + c.one_minus_beta2),
        weight_decay_(F32{} + c.weight_decay),
        step_size_(F32{} + c.step_size) {}

  RZ_SIMD_INLINE F32 Apply(F32 gradient, F32 master, RuleStates& states) const {
    const F32 g = gradient * grad_scale_;
    const F32 direction = Sign(beta1_ * states[0] + one_minus_beta1_ * g);
    // With a beta of 0 or 1 infinity makes NaN of one of the two sums alone, which the master may
    // not show.
    states[0] = CanonicalNan(beta2_ * states[0] + one_minus_beta2_ * g);
    return master - step_size_ * (direction + weight_decay_ * master);
  }

 private:
  F32 grad_scale_, beta1_, one_minus_beta1_, beta2_, one_minus_beta2_, weight_decay_, step_size_;
};

}  // namespace
}  // namespace rz::RZ_SIMD_NAMESPACE

#endif  // RINGZERO_OPTIMIZER_KERNELS_RULES_LION_H_
