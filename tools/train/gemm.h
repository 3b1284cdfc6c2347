// Matrix product of small float32 matrices whose bits do not depend on the machine.
//
// Every element of the result is its own sum, taken over k = 0, 1, 2, ... with one rounding a
// product and one a sum (no fused multiply-add, no partial sums), so all SIMD levels, block sizes
// and compilers give what the plain triple loop gives. Lanes of a vector are neighbouring columns.
#ifndef RINGZERO_TOOLS_TRAIN_GEMM_H_
#define RINGZERO_TOOLS_TRAIN_GEMM_H_

#include <cstddef>

#include "runtime/base/simd_level.h"
#include "tools/train/gemm_kernel.h"

namespace rz {

// c[i, j] = start + sum over k < depth of a[i, k] * b[k, j] for i < rows, j < columns, where start
// is c[i, j] itself (accumulate) or 0. Rows of c are c_stride >= columns apart; what lies between
// them stays. c overlaps neither a nor b. Any size, also 0. Thread-safe.
void Gemm(size_t rows, size_t columns, size_t depth, StridedMatrix a, StridedMatrix b, float* c,
          size_t c_stride, bool accumulate);

// The same at one level that this processor supports; for differential tests.
void Gemm(SimdLevel level, size_t rows, size_t columns, size_t depth, StridedMatrix a,
          StridedMatrix b, float* c, size_t c_stride, bool accumulate);

// The same with b and c row-major without gaps.
inline void Gemm(size_t rows, size_t columns, size_t depth, StridedMatrix a, const float* b,
                 float* c, bool accumulate) {
  Gemm(rows, columns, depth, a, {b, columns, 1}, c, columns, accumulate);
}

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_GEMM_H_
