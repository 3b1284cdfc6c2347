#include "optimizer/kernels/gradient_stats.h"

#include <cassert>

#include "optimizer/kernels/select_table.h"

namespace rz {

double SumOfSquares(DType dtype, const void* data, size_t count) {
  return SumOfSquares(dtype, data, count, ActiveSimdLevel());
}

double SumOfSquares(DType dtype, const void* data, size_t count, SimdLevel level) {
  assert(static_cast<size_t>(dtype) < kFloatingDTypes);
  return OptimizerKernelsAt(level).sum_of_squares[static_cast<size_t>(dtype)](data, count);
}

int64_t CountNonFinite(DType dtype, const void* data, size_t count) {
  return CountNonFinite(dtype, data, count, ActiveSimdLevel());
}

int64_t CountNonFinite(DType dtype, const void* data, size_t count, SimdLevel level) {
  assert(static_cast<size_t>(dtype) < kFloatingDTypes);
  return OptimizerKernelsAt(level).count_non_finite[static_cast<size_t>(dtype)](data, count);
}

}  // namespace rz
