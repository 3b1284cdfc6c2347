#include "optimizer/kernels/gradient_stats.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>

#include "optimizer/kernels/select_table.h"

namespace rz {

double SumOfSquares(DType dtype, const void* data, size_t count) {
  return SumOfSquares(dtype, data, count, ActiveSimdLevel());
}

double SumOfSquares(DType dtype, const void* data, size_t count, SimdLevel level) {
  SquaresSum sum;
  sum.Add(dtype, data, count, level);
  return sum.Total();
}

void SquaresSum::Add(DType dtype, const void* data, size_t count, SimdLevel level) {
  static_assert(std::size(decltype(sums_){}) == kSquareSums);
  assert(static_cast<size_t>(dtype) < kFloatingDTypes);
  OptimizerKernelsAt(level).add_squares[static_cast<size_t>(dtype)](data, count, sums_);
}

double SquaresSum::Total() const {
  double tree[kSquareSums];
  std::copy(std::begin(sums_), std::end(sums_), tree);
  for (size_t half = kSquareSums / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) tree[j] += tree[j + half];
  }
  // The canonical NaN.
  return std::isnan(tree[0]) ? std::numeric_limits<double>::quiet_NaN() : tree[0];
}

int64_t CountNonFinite(DType dtype, const void* data, size_t count) {
  return CountNonFinite(dtype, data, count, ActiveSimdLevel());
}

int64_t CountNonFinite(DType dtype, const void* data, size_t count, SimdLevel level) {
  assert(static_cast<size_t>(dtype) < kFloatingDTypes);
  return OptimizerKernelsAt(level).count_non_finite[static_cast<size_t>(dtype)](data, count);
}

}  // namespace rz
