// The rows of all matrices are the positions of all windows, one window after the other. With N for
// layer normalisation (with gain and bias) over a row:
//
//   embedding  x = token[symbol] + position[place in its window]
//   block      y = x + attention(N1(x) Wa + ba) Wp + bp
//              x' = y + gelu(N2(y) We + be) Wc + bc
//   head       scores = N(x) W, loss = -log softmax(scores)[label]; W is token^T where it is tied
//
// (Radford et al.: Language models are unsupervised multitask learners, 2019.) Backward goes the
// same way back; gradients of weights sum over rows in their order.
#include "tools/train/transformer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/status_macros.h"
#include "tools/train/gemm.h"

namespace rz {
namespace {

size_t Size(int64_t value) { return static_cast<size_t>(value); }

absl::StatusOr<Buffer> Floats(size_t count) {
  return Buffer::Allocate(count * sizeof(float), MemoryTag::kActivation);
}

float* Data(const Buffer& buffer) { return buffer.as<float>().data(); }

// The tensors of a unit, in order of their declaration (transformer_shape.cc).
struct EmbeddingTensors {
  float *token, *position;
};
struct BlockTensors {
  float *gain1, *bias1, *attention, *attention_bias, *projection, *projection_bias;
  float *gain2, *bias2, *expansion, *expansion_bias, *contraction, *contraction_bias;
};
struct HeadTensors {
  float *gain, *bias, *weight;
};

EmbeddingTensors EmbeddingOf(absl::Span<float> unit, size_t width, size_t vocabulary) {
  return {unit.data(), unit.data() + vocabulary * width};
}

BlockTensors BlockOf(absl::Span<float> unit, size_t width) {
  float* at = unit.data();
  const auto next = [&at](size_t count) { return std::exchange(at, at + count); };
  const size_t square = width * width;
  BlockTensors block = {};
  block.gain1 = next(width);
  block.bias1 = next(width);
  block.attention = next(3 * square);
  block.attention_bias = next(3 * width);
  block.projection = next(square);
  block.projection_bias = next(width);
  block.gain2 = next(width);
  block.bias2 = next(width);
  block.expansion = next(4 * square);
  block.expansion_bias = next(4 * width);
  block.contraction = next(4 * square);
  block.contraction_bias = next(width);
  return block;
}

HeadTensors HeadOf(absl::Span<float> unit, size_t width) {
  return {unit.data(), unit.data() + width, unit.data() + 2 * width};
}

// y [rows, out] += x [rows, in] w.
void AddLinear(size_t rows, size_t in, size_t out, const float* x, const float* w, float* y) {
  Gemm(rows, out, in, {x, in, 1}, w, y, true);
}

// dw [in, out] = x^T dy.
void WeightGradient(size_t rows, size_t in, size_t out, const float* x, const float* dy,
                    float* dw) {
  Gemm(in, out, rows, {x, 1, in}, dy, dw, false);
}

// dx [rows, in] = dy w^T.
void InputGradient(size_t rows, size_t in, size_t out, const float* dy, const float* w, float* dx) {
  Gemm(rows, in, out, {dy, out, 1}, {w, 1, out}, dx, in, false);
}

}  // namespace

Transformer::Transformer(const TransformerShape& shape, int64_t max_batch)
    : shape_(shape),
      model_parameters_(shape.Parameters()),
      max_batch_(max_batch),
      width_(Size(shape.width)),
      context_(Size(shape.context)),
      vocabulary_(Size(shape.vocabulary)),
      functions_(ActiveRowFunctions()),
      unit_sizes_(model_parameters_.back().unit + 1) {
  for (const ModelParameter& parameter : model_parameters_) {
    unit_sizes_[parameter.unit] += Size(parameter.element_count);
  }
}

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(const TransformerShape& shape,
                                                                 int64_t max_batch) {
  std::unique_ptr<Transformer> transformer(new Transformer(shape, max_batch));
  RZ_RETURN_IF_ERROR(transformer->AllocateWorkspace());
  return transformer;
}

absl::Status Transformer::AllocateWorkspace() {
  const size_t rows = Size(max_batch_) * context_;
  const size_t largest = *std::max_element(unit_sizes_.begin(), unit_sizes_.end());
  RZ_ASSIGN_OR_RETURN(parameters_, Floats(largest));
  RZ_ASSIGN_OR_RETURN(gradients_, Floats(largest));
  blocks_.resize(Size(shape_.layers));
  for (Block& block : blocks_) RZ_RETURN_IF_ERROR(AllocateBlock(&block));
  RZ_ASSIGN_OR_RETURN(head_input_, Floats(rows * width_));
  RZ_ASSIGN_OR_RETURN(head_moments_, Floats(2 * rows));
  RZ_ASSIGN_OR_RETURN(head_normal_, Floats(rows * width_));
  RZ_ASSIGN_OR_RETURN(scores_, Floats(rows * vocabulary_));
  RZ_ASSIGN_OR_RETURN(score_gradient_, Floats(rows * vocabulary_));
  RZ_ASSIGN_OR_RETURN(gradient_, Floats(rows * width_));
  RZ_ASSIGN_OR_RETURN(branch_gradient_, Floats(rows * width_));
  RZ_ASSIGN_OR_RETURN(expanded_gradient_, Floats(rows * 4 * width_));
  RZ_ASSIGN_OR_RETURN(attention_gradient_, Floats(context_ * context_));
  return absl::OkStatus();
}

absl::Status Transformer::AllocateBlock(Block* block) {
  const size_t rows = Size(max_batch_) * context_;
  RZ_ASSIGN_OR_RETURN(block->input, Floats(rows * width_));
  RZ_ASSIGN_OR_RETURN(block->input_moments, Floats(2 * rows));
  RZ_ASSIGN_OR_RETURN(block->normal1, Floats(rows * width_));
  RZ_ASSIGN_OR_RETURN(block->qkv, Floats(rows * 3 * width_));
  RZ_ASSIGN_OR_RETURN(block->probabilities, Floats(rows * Size(shape_.heads) * context_));
  RZ_ASSIGN_OR_RETURN(block->attended, Floats(rows * width_));
  RZ_ASSIGN_OR_RETURN(block->middle, Floats(rows * width_));
  RZ_ASSIGN_OR_RETURN(block->middle_moments, Floats(2 * rows));
  RZ_ASSIGN_OR_RETURN(block->normal2, Floats(rows * width_));
  RZ_ASSIGN_OR_RETURN(block->expanded, Floats(rows * 4 * width_));
  RZ_ASSIGN_OR_RETURN(block->activated, Floats(rows * 4 * width_));
  return absl::OkStatus();
}

float* Transformer::OutputOf(size_t layer) const {
  return Data(layer + 1 < blocks_.size() ? blocks_[layer + 1].input : head_input_);
}

RowMoments Transformer::Moments(const Buffer& moments) const {
  return {Data(moments), Data(moments) + Size(max_batch_) * context_};
}

AttentionShape Transformer::CurrentAttention() const {
  return {rows_ / context_, context_, Size(shape_.heads), width_};
}

absl::StatusOr<BatchResult> Transformer::Forward(const Batch& batch, Pass pass, UnitStore* store) {
  inputs_ = batch.inputs;
  labels_ = batch.labels;
  rows_ = labels_.size();
  const size_t last = unit_sizes_.size() - 1;
  for (size_t unit = 0; unit <= last; ++unit) {
    RZ_RETURN_IF_ERROR(store->Load(unit, pass, Parameters(unit)));
    if (unit == 0) {
      ForwardEmbedding();
    } else if (unit < last) {
      ForwardBlock(unit - 1);
    } else {
      ForwardHead();
    }
    RZ_RETURN_IF_ERROR(store->Done(unit, pass));
  }
  return SoftmaxLoss();
}

void Transformer::ForwardEmbedding() {
  const EmbeddingTensors embedding = EmbeddingOf(Parameters(0), width_, vocabulary_);
  float* x = Data(blocks_.front().input);
  for (size_t row = 0; row < rows_; ++row, x += width_) {
    const float* token = embedding.token + inputs_[row] * width_;
    const float* position = embedding.position + row % context_ * width_;
    for (size_t j = 0; j < width_; ++j) x[j] = token[j] + position[j];
  }
}

void Transformer::ForwardBlock(size_t layer) {
  const Block& block = blocks_[layer];
  const BlockTensors w = BlockOf(Parameters(layer + 1), width_);
  functions_.normalize(rows_, width_, Data(block.input), w.gain1, w.bias1, Data(block.normal1),
                       Moments(block.input_moments));
  functions_.fill_rows(rows_, 3 * width_, w.attention_bias, Data(block.qkv));
  AddLinear(rows_, width_, 3 * width_, Data(block.normal1), w.attention, Data(block.qkv));
  CausalAttention(CurrentAttention(), Data(block.qkv), Data(block.probabilities),
                  Data(block.attended));
  functions_.add_to_rows(rows_, width_, w.projection_bias, Data(block.input), Data(block.middle));
  AddLinear(rows_, width_, width_, Data(block.attended), w.projection, Data(block.middle));

  functions_.normalize(rows_, width_, Data(block.middle), w.gain2, w.bias2, Data(block.normal2),
                       Moments(block.middle_moments));
  functions_.fill_rows(rows_, 4 * width_, w.expansion_bias, Data(block.expanded));
  AddLinear(rows_, width_, 4 * width_, Data(block.normal2), w.expansion, Data(block.expanded));
  functions_.gelu(rows_ * 4 * width_, Data(block.expanded), Data(block.activated));
  functions_.add_to_rows(rows_, width_, w.contraction_bias, Data(block.middle), OutputOf(layer));
  AddLinear(rows_, 4 * width_, width_, Data(block.activated), w.contraction, OutputOf(layer));
}

StridedMatrix Transformer::HeadMatrix(const float* weight) const {
  if (shape_.tied) return {weight, 1, width_};
  return {weight, vocabulary_, 1};
}

void Transformer::ForwardHead() {
  const HeadTensors head = HeadOf(Parameters(unit_sizes_.size() - 1), width_);
  functions_.normalize(rows_, width_, Data(head_input_), head.gain, head.bias, Data(head_normal_),
                       Moments(head_moments_));
  Gemm(rows_, vocabulary_, width_, {Data(head_normal_), width_, 1}, HeadMatrix(head.weight),
       Data(scores_), vocabulary_, false);
}

// Leaves the softmax of the scores in score_gradient_.
BatchResult Transformer::SoftmaxLoss() {
  BatchResult result;
  std::copy_n(Data(scores_), rows_ * vocabulary_, Data(score_gradient_));
  for (size_t row = 0; row < rows_; ++row) {
    const float* scores = Data(scores_) + row * vocabulary_;
    const RowLoss loss = functions_.softmax(vocabulary_, Data(score_gradient_) + row * vocabulary_);
    result.loss_sum +=
        std::log(double{loss.sum}) - (double{scores[labels_[row]]} - double{loss.largest});
    if (std::find(scores, scores + vocabulary_, loss.largest) == scores + labels_[row]) {
      ++result.correct;
    }
  }
  return result;
}

absl::Status Transformer::Backward(float scale, UnitStore* store) {
  float* delta = Data(score_gradient_);
  for (size_t row = 0; row < rows_; ++row, delta += vocabulary_) {
    delta[labels_[row]] -= 1.0f;
    for (size_t j = 0; j < vocabulary_; ++j) delta[j] *= scale;
  }
  for (size_t unit = unit_sizes_.size(); unit-- > 0;) {
    RZ_RETURN_IF_ERROR(store->Load(unit, Pass::kBackward, Parameters(unit)));
    std::fill(Gradients(unit).begin(), Gradients(unit).end(), 0.0f);
    if (unit + 1 == unit_sizes_.size()) {
      BackwardHead();
    } else if (unit > 0) {
      BackwardPerceptron(unit - 1);
      BackwardAttention(unit - 1);
    } else {
      BackwardEmbedding();
    }
    RZ_RETURN_IF_ERROR(store->Take(unit, Gradients(unit)));
    RZ_RETURN_IF_ERROR(store->Done(unit, Pass::kBackward));
  }
  return absl::OkStatus();
}

// Leaves the gradient of the last block's output in gradient_.
void Transformer::BackwardHead() {
  const size_t unit = unit_sizes_.size() - 1;
  const HeadTensors head = HeadOf(Parameters(unit), width_);
  const HeadTensors d = HeadOf(Gradients(unit), width_);
  const float* const normal = Data(head_normal_);
  const float* const delta = Data(score_gradient_);
  if (shape_.tied) {
    WeightGradient(rows_, vocabulary_, width_, delta, normal, d.weight);
  } else {
    WeightGradient(rows_, width_, vocabulary_, normal, delta, d.weight);
  }
  const StridedMatrix weight = HeadMatrix(head.weight);
  Gemm(rows_, width_, vocabulary_, {delta, vocabulary_, 1},
       {weight.data, weight.column_stride, weight.row_stride}, Data(branch_gradient_), width_,
       false);
  std::fill_n(Data(gradient_), rows_ * width_, 0.0f);
  functions_.normalize_backward(rows_, width_, Data(head_input_), head.gain, Moments(head_moments_),
                                Data(branch_gradient_), Data(gradient_), d.gain, d.bias);
}

// From the gradient of the block's output to that of its middle, both in gradient_.
void Transformer::BackwardPerceptron(size_t layer) {
  const Block& block = blocks_[layer];
  const BlockTensors w = BlockOf(Parameters(layer + 1), width_);
  const BlockTensors d = BlockOf(Gradients(layer + 1), width_);
  float* const expanded = Data(expanded_gradient_);
  functions_.sum_rows(rows_, width_, Data(gradient_), d.contraction_bias);
  WeightGradient(rows_, 4 * width_, width_, Data(block.activated), Data(gradient_), d.contraction);
  InputGradient(rows_, 4 * width_, width_, Data(gradient_), w.contraction, expanded);
  functions_.gelu_backward(rows_ * 4 * width_, Data(block.expanded), expanded);
  functions_.sum_rows(rows_, 4 * width_, expanded, d.expansion_bias);
  WeightGradient(rows_, width_, 4 * width_, Data(block.normal2), expanded, d.expansion);
  InputGradient(rows_, width_, 4 * width_, expanded, w.expansion, Data(branch_gradient_));
  functions_.normalize_backward(rows_, width_, Data(block.middle), w.gain2,
                                Moments(block.middle_moments), Data(branch_gradient_),
                                Data(gradient_), d.gain2, d.bias2);
}

// From the gradient of the block's middle to that of its input.
void Transformer::BackwardAttention(size_t layer) {
  const Block& block = blocks_[layer];
  const BlockTensors w = BlockOf(Parameters(layer + 1), width_);
  const BlockTensors d = BlockOf(Gradients(layer + 1), width_);
  float* const qkv = Data(expanded_gradient_);
  functions_.sum_rows(rows_, width_, Data(gradient_), d.projection_bias);
  WeightGradient(rows_, width_, width_, Data(block.attended), Data(gradient_), d.projection);
  InputGradient(rows_, width_, width_, Data(gradient_), w.projection, Data(branch_gradient_));
  CausalAttentionBackward(CurrentAttention(), Data(block.qkv), Data(block.probabilities),
                          Data(branch_gradient_), Data(attention_gradient_), qkv);
  functions_.sum_rows(rows_, 3 * width_, qkv, d.attention_bias);
  WeightGradient(rows_, width_, 3 * width_, Data(block.normal1), qkv, d.attention);
  InputGradient(rows_, width_, 3 * width_, qkv, w.attention, Data(branch_gradient_));
  functions_.normalize_backward(rows_, width_, Data(block.input), w.gain1,
                                Moments(block.input_moments), Data(branch_gradient_),
                                Data(gradient_), d.gain1, d.bias1);
}

void Transformer::BackwardEmbedding() {
  const EmbeddingTensors d = EmbeddingOf(Gradients(0), width_, vocabulary_);
  const float* gradient = Data(gradient_);
  for (size_t row = 0; row < rows_; ++row, gradient += width_) {
    float* token = d.token + inputs_[row] * width_;
    float* position = d.position + row % context_ * width_;
    for (size_t j = 0; j < width_; ++j) {
      token[j] += gradient[j];
      position[j] += gradient[j];
    }
  }
}

}  // namespace rz
