// A multilayer perceptron with ReLU between its layers and softmax cross-entropy at its end, on one
// rank: forward and backward in float32.
//
// It computes on float32 copies of the parameters and leaves float32 gradients; whoever trains it
// copies them from and to the optimizer's buffers and rounds there, once. Activations stay float32.
// The bits of every result depend on the parameters, the samples and their order, and on nothing
// else: not on SIMD level, machine or mathematics library.
#ifndef RINGZERO_TOOLS_TRAIN_MLP_H_
#define RINGZERO_TOOLS_TRAIN_MLP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/memory/memory.h"
#include "tools/train/mlp_shape.h"

namespace rz {

// What a forward pass says of its samples.
struct BatchResult {
  double loss_sum = 0;  // of -log p(label), natural logarithm
  int64_t correct = 0;  // samples whose label has the largest score (the first of equals)
};

// One owner thread.
class Mlp {
 public:
  // Room for batches of up to max_batch samples.
  //   ResourceExhausted  no memory for it
  static absl::StatusOr<std::unique_ptr<Mlp>> Create(const MlpShape& shape, int64_t max_batch);

  const MlpShape& shape() const { return shape_; }
  int64_t max_batch() const { return max_batch_; }

  // Parameter `index` (MlpShape::Parameters) for the passes to come, and its gradient as the last
  // Backward left it.
  absl::Span<float> parameter(size_t index);
  absl::Span<const float> gradient(size_t index) const;

  // pixels [labels.size(), inputs], at most max_batch rows, stay where they are until Backward;
  // labels are below classes.
  BatchResult Forward(absl::Span<const float> pixels, absl::Span<const uint8_t> labels);

  // Gradients of scale * (sum of the losses of the last Forward). Zeros after an empty batch.
  void Backward(float scale);

 private:
  Mlp(const MlpShape& shape, int64_t max_batch);

  absl::Status AllocateWorkspace();
  BatchResult SoftmaxLoss(absl::Span<const uint8_t> labels);

  MlpShape shape_;
  int64_t max_batch_;
  std::vector<size_t> offset_;  // of each parameter in parameters_ and gradients_
  std::vector<size_t> count_;
  Buffer parameters_;
  Buffer gradients_;
  Buffer transposed_;           // one layer's weight, [outputs, inputs]
  std::vector<Buffer> output_;  // of each layer, [max_batch, outputs]; after ReLU but for the last
  Buffer delta_;                // d loss / d output of the layer backward is at
  Buffer next_delta_;           // the same of the layer before it
  const float* pixels_ = nullptr;
  size_t batch_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_MLP_H_
