// What a step must know of a gradient before it is applied: its norm, and whether it is finite.
#ifndef RINGZERO_OPTIMIZER_KERNELS_GRADIENT_STATS_H_
#define RINGZERO_OPTIMIZER_KERNELS_GRADIENT_STATS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/base/simd_level.h"

namespace rz {

// The sum of squares in double, in an order that depends on the number of elements alone: element i
// is added to partial sum i mod 16, then s[j] += s[j + 8], s[j + 4], s[j + 2], s[j + 1]. The same
// bits at every SIMD level, and however the elements come in pieces. dtype is a float of 16 bits or
// more. Unless it is float64, the result is finite exactly where all elements are: CountNonFinite
// needs to be asked only where it is not. 0 for no elements.
class SquaresSum {
 public:
  // The next elements; all pieces but the last have a multiple of 16.
  void Add(DType dtype, const void* data, size_t count) {
    Add(dtype, data, count, ActiveSimdLevel());
  }
  void Add(DType dtype, const void* data, size_t count, SimdLevel level);

  double Total() const;

 private:
  double sums_[16] = {};
};
double SumOfSquares(DType dtype, const void* data, size_t count);
double SumOfSquares(DType dtype, const void* data, size_t count, SimdLevel level);

// Elements that are infinite or NaN. dtype is a float of 16 bits or more.
int64_t CountNonFinite(DType dtype, const void* data, size_t count);
int64_t CountNonFinite(DType dtype, const void* data, size_t count, SimdLevel level);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_KERNELS_GRADIENT_STATS_H_
