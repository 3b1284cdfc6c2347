// Causal attention with several heads, forward and backward, in float32: each position of a window
// looks at itself and those before it. Bits depend on the inputs alone (gemm.h, row_kernel.h).
#ifndef RINGZERO_TOOLS_TRAIN_ATTENTION_H_
#define RINGZERO_TOOLS_TRAIN_ATTENTION_H_

#include <cstddef>

namespace rz {

struct AttentionShape {
  size_t windows = 0;
  size_t context = 0;  // positions of a window
  size_t heads = 0;
  size_t width = 0;  // of all heads together, a multiple of them
};

// `qkv` [windows * context, 3 * width] has queries, keys and values side by side, in each of them
// head after head. Leaves softmax(q k^T / sqrt(width / heads)) in `probabilities`
// [windows, heads, context, context] and what the heads see in `out` [windows * context, width].
void CausalAttention(const AttentionShape& shape, const float* qkv, float* probabilities,
                     float* out);

// The gradient of qkv from that of out. `scratch` is [context, context].
void CausalAttentionBackward(const AttentionShape& shape, const float* qkv,
                             const float* probabilities, const float* out_gradient, float* scratch,
                             float* qkv_gradient);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_ATTENTION_H_
