// The shape of a causal transformer over bytes or characters, and the parameters it has.
#ifndef RINGZERO_TOOLS_TRAIN_TRANSFORMER_SHAPE_H_
#define RINGZERO_TOOLS_TRAIN_TRANSFORMER_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/train/model_parameter.h"

namespace rz {

struct TransformerShape {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t width = 0;       // a multiple of heads
  int64_t context = 0;     // symbols it sees
  int64_t vocabulary = 0;  // symbols there are; the text's, not part of the shape's text
  bool tied = false;       // the head's weights are the embeddings of symbols

  // In declaration order, as units: the embeddings ("embedding.token" [vocabulary, width] and
  // "embedding.position" [context, width]); each block ("block1.norm1.gain" and so on); the head,
  // whose "head.weight" is [width, vocabulary], or tied to "embedding.token" and shaped as that.
  std::vector<ModelParameter> Parameters() const;
  int64_t ParameterCount() const;  // what is tied counts once

  // "gpt-4x4x128x64": layers, heads, width, context; with "-tied" behind it where that is so.
  std::string ToString() const;
};

// Whether the text means a transformer, well-formed or not.
bool IsTransformerText(const std::string& text);

// Reads such a text; the vocabulary stays 0.
//   InvalidArgument  not of that form, or outside the limits of limits.h
absl::StatusOr<TransformerShape> ParseTransformerShape(const std::string& text);

// First values of parameter `index` (as in Parameters()): gains 1, biases 0, embeddings uniform
// with a standard deviation of 0.02, weights [inputs, outputs] with one of sqrt(1 / (3 inputs)),
// those at the end of a residual branch with that over sqrt(2 layers), what is tied as what it is
// tied to. A function of the arguments alone.
void InitialParameter(const TransformerShape& shape, size_t index, uint64_t seed,
                      absl::Span<float> values);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_TRANSFORMER_SHAPE_H_
