// An optimizer's step on a shard, in one pass: gradient in, float32 master weights and states
// updated, working weights out, rounded to nearest, ties to even.
//
// The formulas are those of rules/, one file an optimizer. Each arithmetic operation is one of
// float32, rounded once (no fused multiply-add). So an element's bits depend on its inputs alone:
// not on its place, the shard or the SIMD level. NaN becomes the canonical quiet NaN.
#ifndef RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_KERNEL_H_
#define RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_KERNEL_H_

#include <array>
#include <cstddef>

#include "absl/status/statusor.h"
#include "optimizer/kernels/optimizer_kernel_table.h"
#include "optimizer/kernels/update_rule.h"
#include "runtime/base/dtype.h"
#include "runtime/base/simd_level.h"

namespace rz {

// Float32 states of a rule beside the master weight.
size_t StateCount(UpdateRule rule);

// Addresses of a rule's states; those it does not have are not looked at.
using StateAddresses = std::array<float*, kMaxOptimizerStates>;

// A rule for one pair of dtypes. Threads may share it. The arrays have `count` elements and any
// alignment; they do not overlap, but float32 working weights may be the master itself, and working
// weights of the gradient's dtype the gradient itself.
class OptimizerKernel {
 public:
  // Gradients and working weights are float32, bfloat16 or float16, in any combination.
  //   InvalidArgument  another dtype; the message names both
  static absl::StatusOr<OptimizerKernel> Create(UpdateRule rule, DType gradient, DType working);

  // At a level that this processor supports.
  static absl::StatusOr<OptimizerKernel> Create(UpdateRule rule, DType gradient, DType working,
                                                SimdLevel level);

  void Update(const StepConstants& constants, const void* gradient, float* master,
              const StateAddresses& states, void* working, size_t count) const {
    kernel_(constants, gradient, master, states.data(), working, count);
  }

 private:
  explicit OptimizerKernel(UpdateKernel kernel) : kernel_(kernel) {}

  UpdateKernel kernel_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_KERNEL_H_
