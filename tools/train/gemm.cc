#include "tools/train/gemm.h"

#include <algorithm>

namespace rz {

void Gemm(SimdLevel level, size_t rows, size_t columns, size_t depth, StridedMatrix a,
          const float* b, float* c, bool accumulate) {
  if (depth == 0) {
    if (!accumulate) std::fill_n(c, rows * columns, 0.0f);
    return;
  }
  switch (level) {
    case SimdLevel::kAvx512:
      return simd_avx512::GemmKernel(rows, columns, depth, a, b, c, accumulate);
    case SimdLevel::kAvx2:
      return simd_avx2::GemmKernel(rows, columns, depth, a, b, c, accumulate);
    case SimdLevel::kPortable:
      return simd_portable::GemmKernel(rows, columns, depth, a, b, c, accumulate);
  }
}

void Gemm(size_t rows, size_t columns, size_t depth, StridedMatrix a, const float* b, float* c,
          bool accumulate) {
  Gemm(ActiveSimdLevel(), rows, columns, depth, a, b, c, accumulate);
}

}  // namespace rz
