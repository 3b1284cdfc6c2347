// Adam and AdamW. States: m, v.
//
// For element i at step t (Kingma & Ba, "Adam", ICLR 2015, algorithm 1; decay decoupled as in
// Loshchilov & Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2; the order
// of operations is that of PyTorch):
//
//   g = gradient[i] * grad_scale                       Adam: + weight_decay * p
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g * g
//   p = p * (1 - lr * weight_decay)                    AdamW alone
//   p = p - lr / bias_correction1 * (m / (sqrt(v) / sqrt(bias_correction2) + eps))
//
// with bias_correction1 = 1 - beta1^t and bias_correction2 = 1 - beta2^t.
#ifndef RINGZERO_OPTIMIZER_KERNELS_RULES_ADAM_H_
#define RINGZERO_OPTIMIZER_KERNELS_RULES_ADAM_H_

#include "optimizer/kernels/rules/rule_math.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

template <bool decoupled>
class AdamLikeRule {
 public:
  static constexpr size_t kStates = 2;

  RZ_SIMD_INLINE explicit AdamLikeRule(const StepConstants& c)
      : grad_scale_(F32{} + c.grad_scale),
        weight_decay_(F32{} + c.weight_decay),
        beta1_(F32{} + c.beta1),
        one_minus_beta1_(F32{} + c.one_minus_beta1),
        beta2_(F32{} + c.beta2),
        one_minus_beta2_(F32{} + c.one_minus_beta2),
        decay_(F32{} + c.decay),
        step_size_(F32{} + c.step_size),
        inverse_root_2_(F32{} + c.inverse_root_2),
        eps_(F32{} + c.eps) {}

  RZ_SIMD_INLINE F32 Apply(F32 gradient, F32 master, RuleStates& states) const {
    F32 g = gradient * grad_scale_;
    if constexpr (!decoupled) g = g + weight_decay_ * master;
    const F32 m = beta1_ * states[0] + one_minus_beta1_ * g;
    const F32 v = beta2_ * states[1] + one_minus_beta2_ * (g * g);
    states[0] = m;
    states[1] = v;
    const F32 denominator = SquareRoot(v) * inverse_root_2_ + eps_;
    if constexpr (decoupled) master = master * decay_;
    return master - step_size_ * (m / denominator);
  }

 private:
  F32 grad_scale_, weight_decay_, beta1_, one_minus_beta1_, beta2_, one_minus_beta2_;
  F32 decay_, step_size_, inverse_root_2_, eps_;
};

using AdamWRule = AdamLikeRule<true>;
using AdamRule = AdamLikeRule<false>;

}  // namespace
}  // namespace rz::RZ_SIMD_NAMESPACE

#endif  // RINGZERO_OPTIMIZER_KERNELS_RULES_ADAM_H_
