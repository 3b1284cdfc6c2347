// A causal transformer over symbols, on one rank: embeddings of symbol and position, blocks of
// attention and a perceptron, each behind a layer normalisation and beside a residual path, and a
// head whose softmax says what symbol comes next. Forward and backward in float32.
#ifndef RINGZERO_TOOLS_TRAIN_TRANSFORMER_H_
#define RINGZERO_TOOLS_TRAIN_TRANSFORMER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/memory/memory.h"
#include "tools/train/attention.h"
#include "tools/train/gemm_kernel.h"
#include "tools/train/model.h"
#include "tools/train/row_functions.h"
#include "tools/train/transformer_shape.h"

namespace rz {

class Transformer : public Model {
 public:
  // Room for batches of up to max_batch windows.
  //   ResourceExhausted  no memory for it
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(const TransformerShape& shape,
                                                             int64_t max_batch);

  std::string ToString() const override { return shape_.ToString(); }
  const std::vector<ModelParameter>& parameters() const override { return model_parameters_; }
  void Initialize(size_t index, uint64_t seed, absl::Span<float> values) const override {
    InitialParameter(shape_, index, seed, values);
  }
  int64_t max_batch() const override { return max_batch_; }

  // A sample is a window of `context` symbols, and for each the symbol after it as its label.
  absl::StatusOr<BatchResult> Forward(const Batch& batch, Pass pass, UnitStore* store) override;
  absl::Status Backward(float scale, UnitStore* store) override;
  absl::Span<const float> scores() const override {
    return scores_.as<float>().first(rows_ * vocabulary_);
  }

 private:
  // What a block's forward pass leaves for its backward pass; R rows, W the width.
  struct Block {
    Buffer input;          // [R, W]
    Buffer input_moments;  // [2, R]
    Buffer normal1;        // [R, W]
    Buffer qkv;            // [R, 3 W]
    Buffer probabilities;  // [windows, heads, context, context]
    Buffer attended;       // [R, W]
    Buffer middle;         // [R, W], input and attention
    Buffer middle_moments;
    Buffer normal2;    // [R, W]
    Buffer expanded;   // [R, 4 W]
    Buffer activated;  // [R, 4 W]
  };

  Transformer(const TransformerShape& shape, int64_t max_batch);

  absl::Status AllocateWorkspace();
  absl::Status AllocateBlock(Block* block);

  void ForwardEmbedding();
  void ForwardBlock(size_t layer);
  void ForwardHead();
  BatchResult SoftmaxLoss();
  void BackwardHead();
  void BackwardPerceptron(size_t layer);
  void BackwardAttention(size_t layer);
  void BackwardEmbedding();

  // Parameters and gradients of the unit that is used.
  absl::Span<float> Parameters(size_t unit) const {
    return parameters_.as<float>().first(unit_sizes_[unit]);
  }
  absl::Span<float> Gradients(size_t unit) const {
    return gradients_.as<float>().first(unit_sizes_[unit]);
  }

  // The head's weights as [width, vocabulary].
  StridedMatrix HeadMatrix(const float* weight) const;

  // What the unit after block `layer` has as its input.
  float* OutputOf(size_t layer) const;
  RowMoments Moments(const Buffer& moments) const;
  AttentionShape CurrentAttention() const;

  const TransformerShape shape_;
  const std::vector<ModelParameter> model_parameters_;
  const int64_t max_batch_;
  const size_t width_;
  const size_t context_;
  const size_t vocabulary_;
  const RowFunctions& functions_;
  std::vector<size_t> unit_sizes_;  // elements of each unit

  Buffer parameters_;  // of one unit
  Buffer gradients_;   // likewise
  std::vector<Block> blocks_;
  Buffer head_input_;          // [R, W]
  Buffer head_moments_;        // [2, R]
  Buffer head_normal_;         // [R, W]
  Buffer scores_;              // [R, vocabulary]
  Buffer score_gradient_;      // [R, vocabulary]; after forward the softmax of the scores
  Buffer gradient_;            // [R, W], of what backward is at
  Buffer branch_gradient_;     // [R, W], of a normalised input
  Buffer expanded_gradient_;   // [R, 4 W]; of queries, keys and values as well
  Buffer attention_gradient_;  // [context, context]
  absl::Span<const uint8_t> inputs_;
  absl::Span<const uint8_t> labels_;
  size_t rows_ = 0;  // of the last forward pass: windows * context
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_TRANSFORMER_H_
