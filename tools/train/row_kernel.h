// What row_functions.cc and its kernels share. No inline code: it would be compiled once a SIMD
// level.
//
// Functions over rows of float32, all of them plain IEEE 754 arithmetic: vectors have 16 lanes at
// every level (the compiler makes them of what registers there are), sums run over lanes first and
// then over the lanes in a fixed order, nothing is fused and no library is called, so every level
// gives the same bits.
#ifndef RINGZERO_TOOLS_TRAIN_ROW_KERNEL_H_
#define RINGZERO_TOOLS_TRAIN_ROW_KERNEL_H_

#include <cstddef>
#include <cstdint>

namespace rz {

// What a normalisation keeps of each row for its backward pass.
struct RowMoments {
  float* mean;
  float* inverse_deviation;  // 1 / sqrt(variance + 1e-5)
};

// One loss, of a row of scores.
struct RowLoss {
  float largest;  // score
  float sum;      // of e^(score - largest)
};

struct RowFunctions {
  // y[i, :] = (x[i, :] - mean) * inverse deviation * gain + bias over each row's own moments.
  void (*normalize)(size_t rows, size_t width, const float* x, const float* gain, const float* bias,
                    float* y, RowMoments moments);

  // Its backward pass: dy of y; adds to dx, gain_gradient and bias_gradient.
  void (*normalize_backward)(size_t rows, size_t width, const float* x, const float* gain,
                             RowMoments moments, const float* dy, float* dx, float* gain_gradient,
                             float* bias_gradient);

  // y = x * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2: GELU in its tanh form.
  void (*gelu)(size_t count, const float* x, float* y);

  // dy becomes dx.
  void (*gelu_backward)(size_t count, const float* x, float* dy);

  // Of row i of scores [size, size]: softmax of scale * its first i + 1 elements, 0 behind them.
  void (*causal_softmax)(size_t size, float scale, float* scores);

  // Its backward pass: the gradient of what it gave becomes that of the scores.
  void (*causal_softmax_backward)(size_t size, float scale, const float* probabilities,
                                  float* gradient);

  // scores [width] become their softmax.
  RowLoss (*softmax)(size_t width, float* scores);

  // y[i, :] = bias for every row, or bias + x[i, :].
  void (*fill_rows)(size_t rows, size_t width, const float* bias, float* y);
  void (*add_to_rows)(size_t rows, size_t width, const float* bias, const float* x, float* y);

  // sums[j] = sum of x[i, j] over i, in their order.
  void (*sum_rows)(size_t rows, size_t width, const float* x, float* sums);

  // e^x for x <= 0, within 2^-22 of it relatively; below -86 as there.
  void (*exponential)(size_t count, const float* x, float* y);
};

// The functions of one level.
#define RZ_DECLARE_ROW_FUNCTIONS(level)    \
  namespace level {                        \
  extern const RowFunctions kRowFunctions; \
  }
RZ_DECLARE_ROW_FUNCTIONS(simd_portable)
RZ_DECLARE_ROW_FUNCTIONS(simd_avx2)
RZ_DECLARE_ROW_FUNCTIONS(simd_avx512)
#undef RZ_DECLARE_ROW_FUNCTIONS

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_ROW_KERNEL_H_
