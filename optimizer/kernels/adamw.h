// AdamW on a shard, in one pass: gradient in, float32 master weights and moments updated, working
// weights out.
//
// For element i at step t (Kingma & Ba, "Adam", ICLR 2015, algorithm 1; decay decoupled as in
// Loshchilov & Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2; the order
// of operations is that of PyTorch's AdamW):
//
//   g = gradient[i] * grad_scale
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g * g
//   p = p * (1 - lr * weight_decay)
//   p = p - lr / bias_correction1 * (m / (sqrt(v) / sqrt(bias_correction2) + eps))
//   working[i] = p rounded to nearest, ties to even
//
// with bias_correction1 = 1 - beta1^t and bias_correction2 = 1 - beta2^t. Each arithmetic operation
// is one of float32, rounded once (no fused multiply-add); 1 - beta, 1 - lr * weight_decay,
// lr / bias_correction1 and 1 / sqrt(bias_correction2) are computed in double and rounded once to
// float32. So an element's bits depend on its inputs alone: not on its place, the shard or the SIMD
// level. NaN becomes the canonical quiet NaN.
#ifndef RINGZERO_OPTIMIZER_KERNELS_ADAMW_H_
#define RINGZERO_OPTIMIZER_KERNELS_ADAMW_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "optimizer/kernels/optimizer_kernel_table.h"
#include "runtime/base/dtype.h"
#include "runtime/base/simd_level.h"

namespace rz {

// The numbers of one step.
struct AdamWStep {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double bias_correction1 = 1.0;
  double bias_correction2 = 1.0;
  double grad_scale = 1.0;  // unscaling and clipping in one factor
};

// AdamW for one pair of dtypes. Threads may share it. The arrays have `count` elements and any
// alignment; they do not overlap, but float32 working weights may be the master itself, and working
// weights of the gradient's dtype the gradient itself.
class AdamW {
 public:
  // Gradients and working weights are float32, bfloat16 or float16, in any combination.
  //   InvalidArgument  another dtype; the message names both
  static absl::StatusOr<AdamW> Create(DType gradient, DType working);

  // At a level that this processor supports.
  static absl::StatusOr<AdamW> Create(DType gradient, DType working, SimdLevel level);

  void Update(const AdamWStep& step, const void* gradient, float* master, float* m, float* v,
              void* working, size_t count) const;

 private:
  explicit AdamW(AdamWKernel kernel) : kernel_(kernel) {}

  AdamWKernel kernel_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_KERNELS_ADAMW_H_
