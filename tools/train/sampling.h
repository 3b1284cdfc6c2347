// Text drawn from a model, one symbol after the other.
#ifndef RINGZERO_TOOLS_TRAIN_SAMPLING_H_
#define RINGZERO_TOOLS_TRAIN_SAMPLING_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/train/text.h"
#include "tools/train/trainer.h"

namespace rz {

// A symbol with the probability softmax(scores / temperature), by a number in [0, 1): the first one
// up to which the probabilities add up to more than it. The one with the largest score where the
// temperature is 0. Scores are finite.
size_t DrawSymbol(absl::Span<const float> scores, double temperature, float uniform);

struct SamplingOptions {
  int64_t length = 0;  // bytes
  double temperature = 1;
  uint64_t seed = 1;
};

// `length` bytes from rank 0's working weights, after a line feed (the first symbol where the text
// has none); other ranks gather the weights along where they are sharded, and get an empty string.
// A function of the weights and the options alone. Collective.
//   as Trainer::Predict
absl::StatusOr<std::string> SampleText(const Text& text, const SamplingOptions& options,
                                       Trainer* trainer);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_SAMPLING_H_
