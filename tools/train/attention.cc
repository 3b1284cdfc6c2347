// For each window and head, with queries Q, keys K and values V [context, width of a head]:
//
//   forward   S = Q K^T, P = causal softmax of S, O = P V
//   backward  dP = dO V^T, dS = softmax backward of dP, dQ = dS K, dK = dS^T Q, dV = P^T dO
//
// Products go by blocks of rows and leave out what is zero: row i has nothing behind column i.
#include "tools/train/attention.h"

#include <algorithm>
#include <cmath>

#include "tools/train/gemm.h"
#include "tools/train/row_functions.h"

namespace rz {
namespace {

constexpr size_t kBlockRows = 64;

StridedMatrix Transposed(StridedMatrix m) { return {m.data, m.column_stride, m.row_stride}; }

StridedMatrix At(StridedMatrix m, size_t i, size_t j) {
  return {m.data + i * m.row_stride + j * m.column_stride, m.row_stride, m.column_stride};
}

// The lower triangle, in blocks, of c [size, size] = a [size, depth] b [depth, size].
void LowerProduct(size_t size, size_t depth, StridedMatrix a, StridedMatrix b, float* c) {
  for (size_t i = 0; i < size; i += kBlockRows) {
    const size_t rows = std::min(kBlockRows, size - i);
    Gemm(rows, i + rows, depth, At(a, i, 0), b, c + i * size, size, false);
  }
}

// c [size, columns] = lower b, where `lower` [size, size] is 0 above its diagonal.
void FromLower(size_t size, size_t columns, StridedMatrix lower, StridedMatrix b, float* c,
               size_t c_stride) {
  for (size_t i = 0; i < size; i += kBlockRows) {
    const size_t rows = std::min(kBlockRows, size - i);
    Gemm(rows, columns, i + rows, At(lower, i, 0), b, c + i * c_stride, c_stride, false);
  }
}

// c [size, columns] = lower^T b.
void FromLowerTransposed(size_t size, size_t columns, StridedMatrix lower, StridedMatrix b,
                         float* c, size_t c_stride) {
  for (size_t i = 0; i < size; i += kBlockRows) {
    const size_t rows = std::min(kBlockRows, size - i);
    Gemm(rows, columns, size - i, Transposed(At(lower, i, i)), At(b, i, 0), c + i * c_stride,
         c_stride, false);
  }
}

float Scale(size_t head_width) { return 1.0f / std::sqrt(static_cast<float>(head_width)); }

}  // namespace

void CausalAttention(const AttentionShape& shape, const float* qkv, float* probabilities,
                     float* out) {
  const RowFunctions& functions = ActiveRowFunctions();
  const size_t width = shape.width;
  const size_t size = shape.context;
  const size_t head_width = width / shape.heads;
  for (size_t window = 0; window < shape.windows; ++window) {
    for (size_t head = 0; head < shape.heads; ++head) {
      const StridedMatrix q = {qkv + head * head_width, 3 * width, 1};
      const StridedMatrix k = At(q, 0, width);
      const StridedMatrix v = At(k, 0, width);
      LowerProduct(size, head_width, q, Transposed(k), probabilities);
      functions.causal_softmax(size, Scale(head_width), probabilities);
      FromLower(size, head_width, {probabilities, size, 1}, v, out + head * head_width, width);
      probabilities += size * size;
    }
    qkv += size * 3 * width;
    out += size * width;
  }
}

void CausalAttentionBackward(const AttentionShape& shape, const float* qkv,
                             const float* probabilities, const float* out_gradient, float* scratch,
                             float* qkv_gradient) {
  const RowFunctions& functions = ActiveRowFunctions();
  const size_t width = shape.width;
  const size_t size = shape.context;
  const size_t head_width = width / shape.heads;
  const StridedMatrix d_scores = {scratch, size, 1};
  for (size_t window = 0; window < shape.windows; ++window) {
    for (size_t head = 0; head < shape.heads; ++head) {
      const StridedMatrix q = {qkv + head * head_width, 3 * width, 1};
      const StridedMatrix k = At(q, 0, width);
      const StridedMatrix v = At(k, 0, width);
      const StridedMatrix d_out = {out_gradient + head * head_width, width, 1};
      float* const dq = qkv_gradient + head * head_width;
      LowerProduct(size, head_width, d_out, Transposed(v), scratch);
      functions.causal_softmax_backward(size, Scale(head_width), probabilities, scratch);
      FromLower(size, head_width, d_scores, k, dq, 3 * width);
      FromLowerTransposed(size, head_width, d_scores, q, dq + width, 3 * width);
      FromLowerTransposed(size, head_width, {probabilities, size, 1}, d_out, dq + 2 * width,
                          3 * width);
      probabilities += size * size;
    }
    qkv += size * 3 * width;
    qkv_gradient += size * 3 * width;
    out_gradient += size * width;
  }
}

}  // namespace rz
