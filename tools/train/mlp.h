// A multilayer perceptron with ReLU between its layers and softmax cross-entropy at its end, on one
// rank: forward and backward in float32.
//
// It holds no parameters and no gradients but those of the layer it is at: before a layer it asks a
// LayerStore for the layer's parameters, and in backward it hands over the layer's gradients as
// soon as it has them. Activations stay, in float32. The bits of every result depend on the
// parameters, the samples and their order, and on nothing else: not on SIMD level, machine or
// mathematics library.
#ifndef RINGZERO_TOOLS_TRAIN_MLP_H_
#define RINGZERO_TOOLS_TRAIN_MLP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "optimizer/gathered_units.h"
#include "runtime/memory/memory.h"
#include "tools/train/mlp_shape.h"

namespace rz {

// What a forward pass says of its samples.
struct BatchResult {
  double loss_sum = 0;  // of -log p(label), natural logarithm
  int64_t correct = 0;  // samples whose label has the largest score (the first of equals)
};

// Where a model's layers have their parameters from, and bring their gradients to.
class LayerStore {
 public:
  virtual ~LayerStore() = default;

  // Fills in the layer's weight [inputs, outputs] and bias [outputs], to be used in `pass`.
  virtual absl::Status Load(size_t layer, Pass pass, absl::Span<float> weight,
                            absl::Span<float> bias) = 0;

  // Takes the layer's gradients, before its Done(kBackward).
  virtual absl::Status Take(size_t layer, absl::Span<const float> weight_gradient,
                            absl::Span<const float> bias_gradient) = 0;

  // The layer has been used in `pass`.
  virtual absl::Status Done(size_t layer, Pass pass) = 0;
};

// One owner thread. Passes fail as their store does.
class Mlp {
 public:
  // Room for batches of up to max_batch samples.
  //   ResourceExhausted  no memory for it
  static absl::StatusOr<std::unique_ptr<Mlp>> Create(const MlpShape& shape, int64_t max_batch);

  const MlpShape& shape() const { return shape_; }
  int64_t max_batch() const { return max_batch_; }

  // pixels [labels.size(), inputs], at most max_batch rows, stay where they are until Backward;
  // labels are below classes. `pass` is forward or evaluation.
  absl::StatusOr<BatchResult> Forward(absl::Span<const float> pixels,
                                      absl::Span<const uint8_t> labels, Pass pass,
                                      LayerStore* store);

  // Gradients of scale * (sum of the losses of the last Forward), from the last layer to the first.
  // Zeros after an empty batch.
  absl::Status Backward(float scale, LayerStore* store);

 private:
  Mlp(const MlpShape& shape, int64_t max_batch);

  absl::Status AllocateWorkspace();
  BatchResult SoftmaxLoss(absl::Span<const uint8_t> labels);

  size_t inputs_of(size_t layer) const { return static_cast<size_t>(shape_.widths[layer]); }
  size_t outputs_of(size_t layer) const { return static_cast<size_t>(shape_.widths[layer + 1]); }
  // Of the layer that is used.
  absl::Span<float> weight(size_t layer) const {
    return parameters_.as<float>().first(inputs_of(layer) * outputs_of(layer));
  }
  absl::Span<float> bias(size_t layer) const {
    return parameters_.as<float>().subspan(inputs_of(layer) * outputs_of(layer), outputs_of(layer));
  }

  MlpShape shape_;
  int64_t max_batch_;
  Buffer parameters_;           // of one layer: weight, bias
  Buffer gradients_;            // likewise
  Buffer transposed_;           // one layer's weight, [outputs, inputs]
  std::vector<Buffer> output_;  // of each layer, [max_batch, outputs]; after ReLU but for the last
  Buffer delta_;                // d loss / d output of the layer backward is at
  Buffer next_delta_;           // the same of the layer before it
  const float* pixels_ = nullptr;
  size_t batch_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_MLP_H_
