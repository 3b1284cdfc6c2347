// The optimizer's kernels of one level as a table; each level's copy of optimizer_kernel_table.cc
// defines one. No Abseil here: what these sources include must not emit code (see
// simd_library.bzl).
#ifndef RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_KERNEL_TABLE_H_
#define RINGZERO_OPTIMIZER_KERNELS_OPTIMIZER_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "optimizer/kernels/update_rule.h"
#include "runtime/base/dtype.h"

namespace rz {

// `states` are those of the rule, in its order.
using UpdateKernel = void (*)(const StepConstants& constants, const void* gradient, float* master,
                              float* const* states, void* working, size_t count);
// Adds the square of element i to sums[i mod kSquareSums].
using AddSquaresKernel = void (*)(const void* data, size_t count, double* sums);
inline constexpr size_t kSquareSums = 16;
using CountNonFiniteKernel = int64_t (*)(const void* data, size_t count);

// Dtypes in the order of DType: float32, float64, bfloat16, float16.
inline constexpr size_t kFloatingDTypes = 4;

// Those of one rule. Null pointers where it has no such pair of dtypes (float64).
struct UpdateKernels {
  size_t state_count;
  UpdateKernel by_dtype[kFloatingDTypes][kFloatingDTypes];  // by gradient, then working weights
};

struct OptimizerKernelTable {
  UpdateKernels update[kUpdateRuleCount];
  AddSquaresKernel add_squares[kFloatingDTypes];
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
