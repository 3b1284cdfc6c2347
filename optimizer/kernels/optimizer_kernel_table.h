// The optimizer's kernels of one level as a table; each level's copy of optimizer_kernel_table.cc
// defines one. No Abseil here: what these sources include must not emit code (see
// simd_library.bzl).
#ifndef RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_KERNEL_TABLE_H_
#define RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"

namespace rz {

// The constants of one AdamW step, rounded to float32; see adamw.h for the formula.
struct AdamWConstants {
  float grad_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float decay;           // 1 - lr * weight_decay
  float step_size;       // lr / bias_correction1
  float inverse_root_2;  // 1 / sqrt(bias_correction2)
  float eps;
};

using AdamWKernel = void (*)(const AdamWConstants& constants, const void* gradient, void* master,
                             void* m, void* v, void* working, size_t count);
using SumOfSquaresKernel = double (*)(const void* data, size_t count);
using CountNonFiniteKernel = int64_t (*)(const void* data, size_t count);

// Dtypes in the order of DType: float32, float64, bfloat16, float16. Null pointers where AdamW has
// no such pair (float64).
inline constexpr size_t kFloatingDTypes = 4;

struct OptimizerKernelTable {
  AdamWKernel adamw[kFloatingDTypes][kFloatingDTypes];  // by gradient, then working weights
  SumOfSquaresKernel sum_of_squares[kFloatingDTypes];
  CountNonFiniteKernel count_non_finite[kFloatingDTypes];
};

namespace simd_portable {
extern const OptimizerKernelTable kOptimizerKernelTable;
}
namespace simd_avx2 {
extern const OptimizerKernelTable kOptimizerKernelTable;
}
namespace simd_avx512 {
extern const OptimizerKernelTable kOptimizerKernelTable;
}

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_KERNEL_TABLE_H_
