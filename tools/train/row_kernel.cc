// The row functions for one SIMD level; simd_library compiles this file once a level.
#include "tools/train/row_kernel.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

constexpr size_t kLanes = 16;

// Functions that take or give such are always inlined: no calling convention matters.
#pragma GCC diagnostic ignored "-Wpsabi"
using Vector [[gnu::vector_size(kLanes * sizeof(float))]] = float;
using Integers [[gnu::vector_size(kLanes * sizeof(int32_t))]] = int32_t;
using UnalignedVector
    [[gnu::vector_size(kLanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] =
        float;

#define RZ_INLINE [[gnu::always_inline]] inline

constexpr Integers kLaneNumbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// The first `count` lanes; beyond them 0.
RZ_INLINE Vector Load(const float* from, size_t count) {
  if (count >= kLanes) return *reinterpret_cast<const UnalignedVector*>(from);
  float lanes[kLanes] = {};
  for (size_t i = 0; i < count; ++i) lanes[i] = from[i];
  return *reinterpret_cast<const UnalignedVector*>(lanes);
}

RZ_INLINE void Store(const Vector& value, float* to, size_t count) {
  if (count >= kLanes) {
    *reinterpret_cast<UnalignedVector*>(to) = value;
    return;
  }
  for (size_t i = 0; i < count; ++i) to[i] = value[i];
}

RZ_INLINE Vector FirstLanes(const Vector& value, size_t count) {
  if (count >= kLanes) return value;
  return kLaneNumbers < static_cast<int32_t>(count) ? value : Vector{};
}

RZ_INLINE float Sum(const Vector& value) {
  float lanes[kLanes];
  *reinterpret_cast<UnalignedVector*>(lanes) = value;
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

RZ_INLINE float Largest(const float* x, size_t width) {
  Vector largest = Vector{} + x[0];
  for (size_t j = 0; j + kLanes <= width; j += kLanes) {
    const Vector value = Load(x + j, kLanes);
    largest = value > largest ? value : largest;
  }
  float result = largest[0];
  for (size_t i = 1; i < kLanes; ++i) result = largest[i] > result ? largest[i] : result;
  for (size_t j = width - width % kLanes; j < width; ++j) result = x[j] > result ? x[j] : result;
  return result;
}

// e^x = 2^n e^r with n the nearest integer of x / ln 2, so |r| <= ln 2 / 2, where the Taylor series
// to r^7 is exact to float precision. Adding 1.5 * 2^23 leaves n in the last bits of the sum; ln 2
// comes in two parts, the first with so few bits that n times it is exact.
RZ_INLINE Vector Exponential(const Vector& x) {
  constexpr float kSmallest = -86.0f;
  constexpr float kInverseLn2 = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRounder = 12582912.0f;
  const Vector bounded = x < kSmallest ? Vector{} + kSmallest : x;
  const Vector shifted = bounded * kInverseLn2 + kRounder;
  const Vector n = shifted - kRounder;
  const Vector r = (bounded - n * kLn2High) - n * kLn2Low;
  Vector sum = Vector{} + 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const Vector power = reinterpret_cast<Vector>(reinterpret_cast<Integers>(sum) +
                                                (reinterpret_cast<Integers>(shifted) << 23));
  return x != x ? x : power;
}

// 1 / (1 + e^-2u) = (1 + tanh u) / 2.
RZ_INLINE Vector Gate(const Vector& u) {
  const Vector magnitude = u < 0.0f ? -u : u;
  const Vector e = Exponential(-2.0f * magnitude);
  return (u < 0.0f ? e : Vector{} + 1.0f) / (1.0f + e);
}

constexpr float kGeluSlope = 0.797884561f;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715f;

void Normalize(size_t rows, size_t width, const float* x, const float* gain, const float* bias,
               float* y, RowMoments moments) {
  constexpr float kEpsilon = 1e-5f;
  for (size_t i = 0; i < rows; ++i, x += width, y += width) {
    Vector sum = {};
    for (size_t j = 0; j < width; j += kLanes) sum += Load(x + j, width - j);
    const float mean = Sum(sum) / static_cast<float>(width);
    Vector squares = {};
    for (size_t j = 0; j < width; j += kLanes) {
      const Vector centred = FirstLanes(Load(x + j, width - j) - mean, width - j);
      squares += centred * centred;
    }
    const float variance = Sum(squares) / static_cast<float>(width);
    const float inverse = 1.0f / __builtin_sqrtf(variance + kEpsilon);
    for (size_t j = 0; j < width; j += kLanes) {
      const size_t left = width - j;
      const Vector normal = (Load(x + j, left) - mean) * inverse;
      Store(normal * Load(gain + j, left) + Load(bias + j, left), y + j, left);
    }
    moments.mean[i] = mean;
    moments.inverse_deviation[i] = inverse;
  }
}

// With n = (x - mean) * inverse and d = dy * gain of a row of `width`:
// dx = inverse * (d - sum(d) / width - n * sum(d * n) / width).
void NormalizeBackward(size_t rows, size_t width, const float* x, const float* gain,
                       RowMoments moments, const float* dy, float* dx, float* gain_gradient,
                       float* bias_gradient) {
  const float share = 1.0f / static_cast<float>(width);
  for (size_t i = 0; i < rows; ++i, x += width, dy += width, dx += width) {
    const float mean = moments.mean[i];
    const float inverse = moments.inverse_deviation[i];
    Vector sum = {};
    Vector product = {};
    for (size_t j = 0; j < width; j += kLanes) {
      const size_t left = width - j;
      const Vector normal = (Load(x + j, left) - mean) * inverse;
      const Vector out = Load(dy + j, left);  // 0 beyond the row
      Store(Load(gain_gradient + j, left) + out * normal, gain_gradient + j, left);
      Store(Load(bias_gradient + j, left) + out, bias_gradient + j, left);
      const Vector d = out * Load(gain + j, left);
      sum += d;
      product += d * normal;
    }
    const float mean_of_d = Sum(sum) * share;
    const float mean_of_product = Sum(product) * share;
    for (size_t j = 0; j < width; j += kLanes) {
      const size_t left = width - j;
      const Vector normal = (Load(x + j, left) - mean) * inverse;
      const Vector d = Load(dy + j, left) * Load(gain + j, left);
      const Vector slope = inverse * ((d - mean_of_d) - normal * mean_of_product);
      Store(Load(dx + j, left) + slope, dx + j, left);
    }
  }
}

void Gelu(size_t count, const float* x, float* y) {
  for (size_t i = 0; i < count; i += kLanes) {
    const Vector v = Load(x + i, count - i);
    const Vector u = kGeluSlope * (v + kGeluCube * (v * v * v));
    Store(v * Gate(u), y + i, count - i);
  }
}

void GeluBackward(size_t count, const float* x, float* dy) {
  for (size_t i = 0; i < count; i += kLanes) {
    const Vector v = Load(x + i, count - i);
    const Vector square = v * v;
    const Vector u = kGeluSlope * (v + kGeluCube * (square * v));
    const Vector gate = Gate(u);
    const Vector slope_of_u = kGeluSlope * (1.0f + (3.0f * kGeluCube) * square);
    const Vector slope = gate + 2.0f * v * (gate * (1.0f - gate)) * slope_of_u;
    Store(Load(dy + i, count - i) * slope, dy + i, count - i);
  }
}

// Shifting by the largest score keeps the exponential from overflowing.
RZ_INLINE RowLoss SoftmaxOf(size_t width, float scale, float* scores) {
  RowLoss loss = {Largest(scores, width) * scale, 0};
  Vector sum = {};
  for (size_t j = 0; j < width; j += kLanes) {
    const size_t left = width - j;
    const Vector e = FirstLanes(Exponential(Load(scores + j, left) * scale - loss.largest), left);
    sum += e;
    Store(e, scores + j, left);
  }
  loss.sum = Sum(sum);
  const float share = 1.0f / loss.sum;
  for (size_t j = 0; j < width; j += kLanes) {
    Store(Load(scores + j, width - j) * share, scores + j, width - j);
  }
  return loss;
}

RowLoss Softmax(size_t width, float* scores) { return SoftmaxOf(width, 1, scores); }

void CausalSoftmax(size_t size, float scale, float* scores) {
  for (size_t i = 0; i < size; ++i, scores += size) {
    SoftmaxOf(i + 1, scale, scores);
    for (size_t j = i + 1; j < size; ++j) scores[j] = 0;
  }
}

void CausalSoftmaxBackward(size_t size, float scale, const float* probabilities, float* gradient) {
  for (size_t i = 0; i < size; ++i, probabilities += size, gradient += size) {
    const size_t width = i + 1;
    Vector sum = {};
    for (size_t j = 0; j < width; j += kLanes) {
      sum += Load(probabilities + j, width - j) * Load(gradient + j, width - j);
    }
    const float mean = Sum(sum);
    for (size_t j = 0; j < width; j += kLanes) {
      const Vector d = Load(gradient + j, width - j) - mean;
      Store(scale * (Load(probabilities + j, width - j) * d), gradient + j, width - j);
    }
    for (size_t j = width; j < size; ++j) gradient[j] = 0;
  }
}

void FillRows(size_t rows, size_t width, const float* bias, float* y) {
  for (size_t i = 0; i < rows; ++i, y += width) {
    for (size_t j = 0; j < width; ++j) y[j] = bias[j];
  }
}

void AddToRows(size_t rows, size_t width, const float* bias, const float* x, float* y) {
  for (size_t i = 0; i < rows; ++i, x += width, y += width) {
    for (size_t j = 0; j < width; ++j) y[j] = x[j] + bias[j];
  }
}

void SumRows(size_t rows, size_t width, const float* x, float* sums) {
  for (size_t j = 0; j < width; ++j) sums[j] = 0;
  for (size_t i = 0; i < rows; ++i, x += width) {
    for (size_t j = 0; j < width; ++j) sums[j] += x[j];
  }
}

void Exponentials(size_t count, const float* x, float* y) {
  for (size_t i = 0; i < count; i += kLanes) {
    Store(Exponential(Load(x + i, count - i)), y + i, count - i);
  }
}

}  // namespace

const RowFunctions kRowFunctions = {
    .normalize = Normalize,
    .normalize_backward = NormalizeBackward,
    .gelu = Gelu,
    .gelu_backward = GeluBackward,
    .causal_softmax = CausalSoftmax,
    .causal_softmax_backward = CausalSoftmaxBackward,
    .softmax = Softmax,
    .fill_rows = FillRows,
    .add_to_rows = AddToRows,
    .sum_rows = SumRows,
    .exponential = Exponentials,
};

}  // namespace rz::RZ_SIMD_NAMESPACE
