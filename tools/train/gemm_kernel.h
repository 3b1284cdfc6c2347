// What gemm.cc and its kernels share. No inline code: it would be compiled once a SIMD level.
#ifndef RINGZERO_TOOLS_TRAIN_GEMM_KERNEL_H_
#define RINGZERO_TOOLS_TRAIN_GEMM_KERNEL_H_

#include <cstddef>

namespace rz {

// A matrix that is read through strides: element (i, j) is data[i * row_stride + j *
// column_stride]. A transposed matrix is the same memory with the strides exchanged.
struct StridedMatrix {
  const float* data;
  size_t row_stride;
  size_t column_stride;
};

// Gemm (gemm.h) of one level, for depth > 0.
#define RZ_DECLARE_GEMM_KERNEL(level)                                                          \
  namespace level {                                                                            \
  void GemmKernel(size_t rows, size_t columns, size_t depth, StridedMatrix a, StridedMatrix b, \
                  float* c, size_t c_stride, bool accumulate);                                 \
  }
RZ_DECLARE_GEMM_KERNEL(simd_portable)
RZ_DECLARE_GEMM_KERNEL(simd_avx2)
RZ_DECLARE_GEMM_KERNEL(simd_avx512)
#undef RZ_DECLARE_GEMM_KERNEL

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_GEMM_KERNEL_H_
