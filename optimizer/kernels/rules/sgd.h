// Stochastic gradient descent, with momentum or without. States: none, or the momentum's.
//
// For element i, as PyTorch's SGD:
//
//   g = gradient[i] * grad_scale + weight_decay * p
//   b = momentum * b + (1 - dampening) * g         the first step: b = g
//   p = p - lr * g                                 without momentum
//   p = p - lr * b                                 with momentum
//   p = p - lr * (g + momentum * b)                Nesterov's
#ifndef RINGZERO_OPTIMIZER_KERNELS_RULES_SGD_H_
#define RINGZERO_OPTIMIZER_KERNELS_RULES_SGD_H_

#include "optimizer/kernels/rules/rule_math.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

class SgdRule {
 public:
  static constexpr size_t kStates = 0;

  RZ_SIMD_INLINE explicit SgdRule(const StepConstants& c)
      : grad_scale_(F32{} + c.grad_scale),
        weight_decay_(F32{} + c.weight_decay),
        step_size_(F32{} + c.step_size) {}

  RZ_SIMD_INLINE F32 Apply(F32 gradient, F32 master, RuleStates&) const {
    const F32 g = gradient * grad_scale_ + weight_decay_ * master;
    return master - step_size_ * g;
  }

 private:
  F32 grad_scale_, weight_decay_, step_size_;
};

template <bool nesterov>
class MomentumLikeRule {
 public:
  static constexpr size_t kStates = 1;

  RZ_SIMD_INLINE explicit MomentumLikeRule(const StepConstants& c)
      : grad_scale_(F32{} + c.grad_scale),
        weight_decay_(F32{} + c.weight_decay),
        step_size_(F32{} + c.step_size),
        momentum_(F32{} + c.momentum),
        one_minus_dampening_(F32{} + c.one_minus_dampening) {}

  RZ_SIMD_INLINE F32 Apply(F32 gradient, F32 master, RuleStates& states) const {
    const F32 g = gradient * grad_scale_ + weight_decay_ * master;
    const F32 b = momentum_ * states[0] + one_minus_dampening_ * g;
    states[0] = b;
    const F32 direction = nesterov ? g + momentum_ * b : b;
    return master - step_size_ * direction;
  }

 private:
  F32 grad_scale_, weight_decay_, step_size_, momentum_, one_minus_dampening_;
};

using MomentumRule = MomentumLikeRule<false>;
using NesterovRule = MomentumLikeRule<true>;

}  // namespace
}  // namespace rz::RZ_SIMD_NAMESPACE

#endif  // RINGZERO_OPTIMIZER_KERNELS_RULES_SGD_H_
