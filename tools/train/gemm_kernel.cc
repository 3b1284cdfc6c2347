// The blocked product for one SIMD level; simd_library compiles this file once a level.
//
// 1. Columns are cut into panels of two vectors, depth into runs of kDepthBlock.
// 2. A run of a panel of b is copied into `packed`, row after row, with zeros for columns beyond
//    the last: the inner loop then reads memory in order and needs no edges.
// 3. Blocks of kRows rows of c stay in registers for a whole run. Between runs they rest in c: the
//    sum goes on where it stopped, so the cut into runs does not show in the bits.
#include "tools/train/gemm_kernel.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

// Floats of a vector, and rows of c that (with two vectors of columns) fill the registers.
#if defined(__AVX512F__)
constexpr size_t kLanes = 16;
constexpr size_t kRows = 12;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8;
constexpr size_t kRows = 5;
#else
constexpr size_t kLanes = 4;
constexpr size_t kRows = 5;
#endif

constexpr size_t kDepthBlock = 256;

using Vector [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using UnalignedVector
    [[gnu::vector_size(kLanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] =
        float;

constexpr size_t kPanel = 2 * kLanes;

inline void Pack(StridedMatrix b, size_t depth, size_t width, float* packed) {
  if (b.column_stride == 1) {
    for (size_t k = 0; k < depth; ++k) {
      const float* row = b.data + k * b.row_stride;
      for (size_t j = 0; j < kPanel; ++j) packed[k * kPanel + j] = j < width ? row[j] : 0.0f;
    }
    return;
  }
  for (size_t j = 0; j < kPanel; ++j) {
    const float* column = b.data + j * b.column_stride;
    for (size_t k = 0; k < depth; ++k) {
      packed[k * kPanel + j] = j < width ? column[k * b.row_stride] : 0.0f;
    }
  }
}

// c[0 .. Rows, 0 .. width) (+)= a[0 .. Rows, 0 .. depth) * packed. Whole panels go straight between
// registers and c, others by way of `edge`.
template <size_t Rows>
inline void Block(size_t depth, StridedMatrix a, const float* packed, float* c, size_t ldc,
                  size_t width, bool accumulate) {
  float edge[Rows][kPanel];
  float* to = c;
  size_t to_stride = ldc;
  if (width < kPanel) {
    to = &edge[0][0];
    to_stride = kPanel;
    for (size_t i = 0; accumulate && i < Rows; ++i) {
      for (size_t j = 0; j < kPanel; ++j) edge[i][j] = j < width ? c[i * ldc + j] : 0.0f;
    }
  }
  Vector sum[Rows][2] = {};
  for (size_t i = 0; accumulate && i < Rows; ++i) {
    sum[i][0] = *reinterpret_cast<const UnalignedVector*>(to + i * to_stride);
    sum[i][1] = *reinterpret_cast<const UnalignedVector*>(to + i * to_stride + kLanes);
  }
  const float* row[Rows];
  for (size_t i = 0; i < Rows; ++i) row[i] = a.data + i * a.row_stride;
  for (size_t k = 0; k < depth; ++k) {
    const float* panel = packed + k * kPanel;
    const Vector b0 = *reinterpret_cast<const UnalignedVector*>(panel);
    const Vector b1 = *reinterpret_cast<const UnalignedVector*>(panel + kLanes);
    for (size_t i = 0; i < Rows; ++i) {
      const float x = row[i][k * a.column_stride];
      sum[i][0] = sum[i][0] + x * b0;
      sum[i][1] = sum[i][1] + x * b1;
    }
  }
  for (size_t i = 0; i < Rows; ++i) {
    *reinterpret_cast<UnalignedVector*>(to + i * to_stride) = sum[i][0];
    *reinterpret_cast<UnalignedVector*>(to + i * to_stride + kLanes) = sum[i][1];
  }
  if (width == kPanel) return;
  for (size_t i = 0; i < Rows; ++i) {
    for (size_t j = 0; j < width; ++j) c[i * ldc + j] = edge[i][j];
  }
}

template <size_t Rows>
inline void LastRows(size_t rows, size_t depth, StridedMatrix a, const float* packed, float* c,
                     size_t ldc, size_t width, bool accumulate) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return Block<Rows>(depth, a, packed, c, ldc, width, accumulate);
    LastRows<Rows - 1>(rows, depth, a, packed, c, ldc, width, accumulate);
  }
}

// The part of `a` that begins at (i, k).
inline StridedMatrix At(StridedMatrix a, size_t i, size_t k) {
  return {a.data + i * a.row_stride + k * a.column_stride, a.row_stride, a.column_stride};
}

}  // namespace

void GemmKernel(size_t rows, size_t columns, size_t depth, StridedMatrix a, StridedMatrix b,
                float* c, size_t c_stride, bool accumulate) {
  alignas(64) float packed[kDepthBlock * kPanel];
  for (size_t j = 0; j < columns; j += kPanel) {
    const size_t width = columns - j < kPanel ? columns - j : kPanel;
    for (size_t k = 0; k < depth; k += kDepthBlock) {
      const size_t run = depth - k < kDepthBlock ? depth - k : kDepthBlock;
      const bool go_on = accumulate || k > 0;
      Pack(At(b, k, j), run, width, packed);
      size_t i = 0;
      for (; i + kRows <= rows; i += kRows) {
        Block<kRows>(run, At(a, i, k), packed, c + i * c_stride + j, c_stride, width, go_on);
      }
      LastRows<kRows - 1>(rows - i, run, At(a, i, k), packed, c + i * c_stride + j, c_stride, width,
                          go_on);
    }
  }
}

}  // namespace rz::RZ_SIMD_NAMESPACE
