// Layer l has the input x_l [batch, in], the weight W [in, out] and the bias b [out]:
//
//   forward   y = x W + b, then ReLU but for the last layer; p = softmax(y) of the last
//   backward  d of the last layer = scale * (p - one_hot(label)); then from the last to the first
//             dW = x^T d        sums over samples in their order
//             db = sum of the rows of d
//             d  = (d W^T) where x > 0, else 0, for the layer before
#include "tools/train/mlp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/status_macros.h"
#include "tools/train/exponential.h"
#include "tools/train/gemm.h"

namespace rz {
namespace {

size_t Size(int64_t value) { return static_cast<size_t>(value); }

void Transpose(const float* from, size_t rows, size_t columns, float* to) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
  }
}

absl::StatusOr<Buffer> Floats(size_t count) {
  return Buffer::Allocate(count * sizeof(float), MemoryTag::kActivation);
}

}  // namespace

Mlp::Mlp(const MlpShape& shape, int64_t max_batch)
    : shape_(shape), model_parameters_(shape.Parameters()), max_batch_(max_batch) {}

absl::StatusOr<std::unique_ptr<Mlp>> Mlp::Create(const MlpShape& shape, int64_t max_batch) {
  std::unique_ptr<Mlp> mlp(new Mlp(shape, max_batch));
  RZ_RETURN_IF_ERROR(mlp->AllocateWorkspace());
  return mlp;
}

absl::Status Mlp::AllocateWorkspace() {
  size_t largest = 0;
  size_t largest_later_weight = 0;
  for (size_t layer = 0; layer < shape_.layer_count(); ++layer) {
    const size_t weight = inputs_of(layer) * outputs_of(layer);
    largest = std::max(largest, weight + outputs_of(layer));
    if (layer > 0) largest_later_weight = std::max(largest_later_weight, weight);
  }
  RZ_ASSIGN_OR_RETURN(pixels_, Floats(Size(max_batch_) * inputs_of(0)));
  RZ_ASSIGN_OR_RETURN(parameters_, Floats(largest));
  RZ_ASSIGN_OR_RETURN(gradients_, Floats(largest));
  RZ_ASSIGN_OR_RETURN(transposed_, Floats(largest_later_weight));
  size_t widest = 0;
  for (size_t layer = 0; layer < shape_.layer_count(); ++layer) {
    const size_t width = Size(shape_.widths[layer + 1]);
    widest = std::max(widest, width);
    RZ_ASSIGN_OR_RETURN(Buffer output, Floats(Size(max_batch_) * width));
    output_.push_back(std::move(output));
  }
  RZ_ASSIGN_OR_RETURN(delta_, Floats(Size(max_batch_) * widest));
  RZ_ASSIGN_OR_RETURN(next_delta_, Floats(Size(max_batch_) * widest));
  return absl::OkStatus();
}

absl::StatusOr<BatchResult> Mlp::Forward(const Batch& batch, Pass pass, UnitStore* store) {
  batch_ = batch.labels.size();
  float* const pixels = pixels_.as<float>().data();
  for (size_t i = 0; i < batch_ * inputs_of(0); ++i) {
    pixels[i] = static_cast<float>(batch.inputs[i]) * (1.0f / 255.0f);
  }
  const float* input = pixels;
  for (size_t layer = 0; layer < shape_.layer_count(); ++layer) {
    RZ_RETURN_IF_ERROR(store->Load(layer, pass, parameters(layer)));
    const size_t in = inputs_of(layer);
    const size_t out = outputs_of(layer);
    float* output = output_[layer].as<float>().data();
    for (size_t i = 0; i < batch_; ++i) std::copy_n(bias(layer).data(), out, output + i * out);
    Gemm(batch_, out, in, {input, in, 1}, weight(layer).data(), output, true);
    RZ_RETURN_IF_ERROR(store->Done(layer, pass));
    if (layer + 1 < shape_.layer_count()) {
      for (size_t i = 0; i < batch_ * out; ++i) output[i] = output[i] > 0.0f ? output[i] : 0.0f;
    }
    input = output;
  }
  return SoftmaxLoss(batch.labels);
}

// Leaves p - one_hot(label) in delta_. Shifting by the largest score keeps exp from overflowing.
BatchResult Mlp::SoftmaxLoss(absl::Span<const uint8_t> labels) {
  BatchResult result;
  const size_t classes = Size(shape_.classes());
  const float* scores = output_.back().as<float>().data();
  float* delta = delta_.as<float>().data();
  for (size_t i = 0; i < batch_; ++i, scores += classes, delta += classes) {
    const size_t best = static_cast<size_t>(std::max_element(scores, scores + classes) - scores);
    double sum = 0;
    for (size_t j = 0; j < classes; ++j) {
      const double e = Exponential(double{scores[j]} - double{scores[best]});
      delta[j] = static_cast<float>(e);
      sum += e;
    }
    for (size_t j = 0; j < classes; ++j) {
      delta[j] = static_cast<float>(double{delta[j]} / sum);
    }
    const size_t label = labels[i];
    delta[label] -= 1.0f;
    result.loss_sum += std::log(sum) - (double{scores[label]} - double{scores[best]});
    if (best == label) ++result.correct;
  }
  return result;
}

absl::Status Mlp::Backward(float scale, UnitStore* store) {
  float* delta = delta_.as<float>().data();
  float* next = next_delta_.as<float>().data();
  for (size_t i = 0; i < batch_ * Size(shape_.classes()); ++i) delta[i] *= scale;
  for (size_t layer = shape_.layer_count(); layer-- > 0;) {
    RZ_RETURN_IF_ERROR(store->Load(layer, Pass::kBackward, parameters(layer)));
    const size_t in = inputs_of(layer);
    const size_t out = outputs_of(layer);
    const float* input =
        layer == 0 ? pixels_.as<float>().data() : output_[layer - 1].as<float>().data();
    const absl::Span<float> weight_gradient = gradients_.as<float>().first(in * out);
    const absl::Span<float> bias_gradient = gradients_.as<float>().subspan(in * out, out);

    Gemm(in, out, batch_, {input, 1, in}, delta, weight_gradient.data(), false);
    std::fill(bias_gradient.begin(), bias_gradient.end(), 0.0f);
    for (size_t i = 0; i < batch_; ++i) {
      for (size_t j = 0; j < out; ++j) bias_gradient[j] += delta[i * out + j];
    }
    RZ_RETURN_IF_ERROR(store->Take(layer, gradients_.as<float>().first((in + 1) * out)));
    if (layer > 0) {
      float* transposed = transposed_.as<float>().data();
      Transpose(weight(layer).data(), in, out, transposed);
      Gemm(batch_, in, out, {delta, out, 1}, transposed, next, false);
      for (size_t i = 0; i < batch_ * in; ++i) next[i] = input[i] > 0.0f ? next[i] : 0.0f;
      std::swap(delta, next);
    }
    RZ_RETURN_IF_ERROR(store->Done(layer, Pass::kBackward));
  }
  return absl::OkStatus();
}

}  // namespace rz
