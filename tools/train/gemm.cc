#include "tools/train/gemm.h"

#include <algorithm>

namespace rz {

void Gemm(SimdLevel level, size_t rows, size_t columns, size_t depth, StridedMatrix a,
          StridedMatrix b, float* c, size_t c_stride, bool accumulate) {
  if (depth == 0) {
    if (accumulate) return;
    for (size_t i = 0; i < rows; ++i) std::fill_n(c + i * c_stride, columns, 0.0f);
    return;
  }
  switch (level) {
    case SimdLevel::kAvx512:
      return simd_avx512::GemmKernel(rows, columns, depth, a, b, c, c_stride, accumulate);
    case SimdLevel::kAvx2:
      return simd_avx2::GemmKernel(rows, columns, depth, a, b, c, c_stride, accumulate);
    case SimdLevel::kPortable:
      return simd_portable::GemmKernel(rows, columns, depth, a, b, c, c_stride, accumulate);
  }
}

void Gemm(size_t rows, size_t columns, size_t depth, StridedMatrix a, StridedMatrix b, float* c,
          size_t c_stride, bool accumulate) {
  Gemm(ActiveSimdLevel(), rows, columns, depth, a, b, c, c_stride, accumulate);
}

}  // namespace rz
