// A multilayer perceptron with ReLU between its layers and softmax cross-entropy at its end, on one
// rank: forward and backward in float32. A layer is a unit: its weight [inputs, outputs], then its
// bias [outputs].
#ifndef RINGZERO_TOOLS_TRAIN_MLP_H_
#define RINGZERO_TOOLS_TRAIN_MLP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/memory/memory.h"
#include "tools/train/mlp_shape.h"
#include "tools/train/model.h"

namespace rz {

class Mlp : public Model {
 public:
  // Room for batches of up to max_batch samples.
  //   ResourceExhausted  no memory for it
  static absl::StatusOr<std::unique_ptr<Mlp>> Create(const MlpShape& shape, int64_t max_batch);

  const MlpShape& shape() const { return shape_; }

  std::string ToString() const override { return shape_.ToString(); }
  const std::vector<ModelParameter>& parameters() const override { return model_parameters_; }
  void Initialize(size_t index, uint64_t seed, absl::Span<float> values) const override {
    InitialParameter(shape_, index, seed, values);
  }
  int64_t max_batch() const override { return max_batch_; }

  // A sample is `inputs` bytes, from 0 for 0 to 255 for 1, and one label below classes.
  absl::StatusOr<BatchResult> Forward(const Batch& batch, Pass pass, UnitStore* store) override;
  absl::Status Backward(float scale, UnitStore* store) override;
  absl::Span<const float> scores() const override {
    return output_.back().as<float>().first(batch_ * outputs_of(shape_.layer_count() - 1));
  }

 private:
  Mlp(const MlpShape& shape, int64_t max_batch);

  absl::Status AllocateWorkspace();
  BatchResult SoftmaxLoss(absl::Span<const uint8_t> labels);

  size_t inputs_of(size_t layer) const { return static_cast<size_t>(shape_.widths[layer]); }
  size_t outputs_of(size_t layer) const { return static_cast<size_t>(shape_.widths[layer + 1]); }
  // Weight and bias of the layer that is used, and each of them.
  absl::Span<float> parameters(size_t layer) const {
    return parameters_.as<float>().first((inputs_of(layer) + 1) * outputs_of(layer));
  }
  absl::Span<float> weight(size_t layer) const {
    return parameters_.as<float>().first(inputs_of(layer) * outputs_of(layer));
  }
  absl::Span<float> bias(size_t layer) const {
    return parameters_.as<float>().subspan(inputs_of(layer) * outputs_of(layer), outputs_of(layer));
  }

  const MlpShape shape_;
  const std::vector<ModelParameter> model_parameters_;
  const int64_t max_batch_;
  Buffer pixels_;               // [max_batch, inputs]
  Buffer parameters_;           // of one layer: weight, bias
  Buffer gradients_;            // likewise
  Buffer transposed_;           // one layer's weight, [outputs, inputs]
  std::vector<Buffer> output_;  // of each layer, [max_batch, outputs]; after ReLU but for the last
  Buffer delta_;                // d loss / d output of the layer backward is at
  Buffer next_delta_;           // the same of the layer before it
  size_t batch_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_MLP_H_
