// Adagrad. State: the sum of squared gradients.
//
// For element i at step t (Duchi, Hazan & Singer, "Adaptive Subgradient Methods", JMLR 2011; the
// order of operations is that of PyTorch):
//
//   g = gradient[i] * grad_scale + weight_decay * p
//   s = s + g * g
//   p = p - lr / (1 + (t - 1) * lr_decay) * (g / (sqrt(s) + eps))
#ifndef RINGZERO_OPTIMIZER_KERNELS_RULES_ADAGRAD_H_
#define RINGZERO_OPTIMIZER_KERNELS_RULES_ADAGRAD_H_

#include "optimizer/kernels/rules/rule_math.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

class AdagradRule {
 public:
  static constexpr size_t kStates = 1;

  RZ_SIMD_INLINE explicit AdagradRule(const StepConstants& c)
      : grad_scale_(F32{} + c.grad_scale),
        weight_decay_(F32{} + c.weight_decay),
        step_size_(F32{} + c.step_size),
        eps_(F32{} + c.eps) {}

  RZ_SIMD_INLINE F32 Apply(F32 gradient, F32 master, RuleStates& states) const {
    const F32 g = gradient * grad_scale_ + weight_decay_ * master;
    const F32 s = states[0] + g * g;
    states[0] = s;
    return master - step_size_ * (g / (SquareRoot(s) + eps_));
  }

 private:
  F32 grad_scale_, weight_decay_, step_size_, eps_;
};

}  // namespace
}  // namespace rz::RZ_SIMD_NAMESPACE

#endif  // RINGZERO_OPTIMIZER_KERNELS_RULES_ADAGRAD_H_
