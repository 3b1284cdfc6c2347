// What the rules share: for sources of simd_library() only.
//
// A rule is a class with
//   kStates            its float32 states, at most kMaxOptimizerStates
//   Rule(constants)    broadcasts what it needs of a step's constants
//   Apply(gradient, master, states)   the vector's new master; states are updated in place
// Every arithmetic operation is one of float32, rounded once: no fused multiply-add. What is stored
// has one NaN, the canonical: update_pass.h makes it so, and looks at the master alone. So where
// Apply leaves a state NaN the new master is NaN too, or the state's is canonical already. An
// element's bits depend on its inputs alone.
#ifndef RINGZERO_OPTIMIZER_KERNELS_RULES_RULE_MATH_H_
#define RINGZERO_OPTIMIZER_KERNELS_RULES_RULE_MATH_H_

#include "optimizer/kernels/update_rule.h"
#include "runtime/base/simd_vector.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

using RuleStates = F32[kMaxOptimizerStates];

// IEEE square root, correctly rounded at every level. NaN of a negative lane is made canonical
// later.
RZ_SIMD_INLINE F32 SquareRoot(F32 x) {
#if defined(__AVX512F__)
  return (F32)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#elif defined(__AVX2__)
  return (F32)_mm256_sqrt_ps((__m256)x);
#else
  F32 root;
  for (size_t lane = 0; lane < kVectorBytes / sizeof(float); ++lane) {
    root[lane] = __builtin_sqrtf(x[lane]);
  }
  return root;
#endif
}

// -1, 0 or 1; zeros and NaN stay what they are.
RZ_SIMD_INLINE F32 Sign(F32 x) {
  const F32 one = F32{} + 1.0f;
  return x > 0 ? one : (x < 0 ? -one : x);
}

}  // namespace
}  // namespace rz::RZ_SIMD_NAMESPACE

#endif  // RINGZERO_OPTIMIZER_KERNELS_RULES_RULE_MATH_H_
