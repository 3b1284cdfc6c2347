#include "tools/train/transformer_shape.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tools/train/limits.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

constexpr char kPrefix[] = "gpt-";
constexpr char kTied[] = "-tied";
constexpr char kTokenEmbedding[] = "embedding.token";
constexpr float kEmbeddingDeviation = 0.02f;

// Streams of the seed: one a parameter, away from those of the data.
constexpr uint64_t kFirstParameterStream = 1000;

absl::Status Malformed(const std::string& text, const std::string& found) {
  return absl::InvalidArgumentError(
      absl::StrCat("model \"", text,
                   "\": expected gpt-LAYERSxHEADSxWIDTHxCONTEXT, like gpt-4x4x128x64, and -tied "
                   "behind it where the head's weights are the embeddings, with 1 to ",
                   kMaxTransformerLayers, " layers, a width up to ", kMaxTransformerWidth,
                   " that is a multiple of the heads, and a context up to ", kMaxTransformerContext,
                   "; found ", found));
}

}  // namespace

std::vector<ModelParameter> TransformerShape::Parameters() const {
  std::vector<ModelParameter> parameters;
  size_t unit = 0;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t length : shape) count *= length;
    parameters.push_back({name, std::move(shape), count, unit});
  };
  add(kTokenEmbedding, {vocabulary, width});
  add("embedding.position", {context, width});
  for (int64_t layer = 1; layer <= layers; ++layer) {
    ++unit;
    const std::string block = absl::StrCat("block", layer);
    add(block + ".norm1.gain", {width});
    add(block + ".norm1.bias", {width});
    add(block + ".attention.weight", {width, 3 * width});
    add(block + ".attention.bias", {3 * width});
    add(block + ".projection.weight", {width, width});
    add(block + ".projection.bias", {width});
    add(block + ".norm2.gain", {width});
    add(block + ".norm2.bias", {width});
    add(block + ".expansion.weight", {width, 4 * width});
    add(block + ".expansion.bias", {4 * width});
    add(block + ".contraction.weight", {4 * width, width});
    add(block + ".contraction.bias", {width});
  }
  ++unit;
  add("head.norm.gain", {width});
  add("head.norm.bias", {width});
  if (tied) {
    add("head.weight", {vocabulary, width});
    parameters.back().tied_to = kTokenEmbedding;
  } else {
    add("head.weight", {width, vocabulary});
  }
  return parameters;
}

int64_t TransformerShape::ParameterCount() const {
  const int64_t block = 12 * width * width + 13 * width;
  return layers * block + ((tied ? 1 : 2) * vocabulary + context + 2) * width;
}

std::string TransformerShape::ToString() const {
  return absl::StrCat(kPrefix, layers, "x", heads, "x", width, "x", context, tied ? kTied : "");
}

bool IsTransformerText(const std::string& text) { return absl::StartsWith(text, kPrefix); }

absl::StatusOr<TransformerShape> ParseTransformerShape(const std::string& text) {
  if (!IsTransformerText(text)) return Malformed(text, "another beginning");
  absl::string_view of_numbers = absl::string_view(text).substr(sizeof kPrefix - 1);
  const bool tied = absl::ConsumeSuffix(&of_numbers, kTied);
  std::vector<int64_t> numbers;
  for (absl::string_view part : absl::StrSplit(of_numbers, 'x')) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 1) {
      return Malformed(text, absl::StrCat("\"", part, "\""));
    }
    numbers.push_back(number);
  }
  if (numbers.size() != 4) return Malformed(text, absl::StrCat(numbers.size(), " numbers"));
  TransformerShape shape = {numbers[0], numbers[1], numbers[2], numbers[3], 0, tied};
  if (shape.layers > kMaxTransformerLayers) {
    return Malformed(text, absl::StrCat(shape.layers, " layers"));
  }
  if (shape.width > kMaxTransformerWidth || shape.width % shape.heads != 0) {
    return Malformed(text,
                     absl::StrCat("a width of ", shape.width, " and ", shape.heads, " heads"));
  }
  if (shape.context > kMaxTransformerContext) {
    return Malformed(text, absl::StrCat("a context of ", shape.context));
  }
  TransformerShape largest = shape;
  largest.vocabulary = kMaxVocabulary;
  if (largest.ParameterCount() > kMaxModelParameters) {
    return Malformed(text, absl::StrCat(largest.ParameterCount(), " parameters; at most ",
                                        kMaxModelParameters, " are allowed"));
  }
  return shape;
}

void InitialParameter(const TransformerShape& shape, size_t index, uint64_t seed,
                      absl::Span<float> values) {
  const std::vector<ModelParameter> parameters = shape.Parameters();
  if (!parameters[index].tied_to.empty()) index = 0;  // the embeddings of symbols
  const ModelParameter& parameter = parameters[index];
  if (absl::EndsWith(parameter.name, ".bias") || absl::EndsWith(parameter.name, ".gain")) {
    std::fill(values.begin(), values.end(), absl::EndsWith(parameter.name, ".gain") ? 1.0f : 0.0f);
    return;
  }
  float deviation = kEmbeddingDeviation;
  if (absl::EndsWith(parameter.name, ".weight")) {
    deviation = std::sqrt(1.0f / (3.0f * static_cast<float>(parameter.shape[0])));
  }
  if (absl::StrContains(parameter.name, "projection") ||
      absl::StrContains(parameter.name, "contraction")) {
    deviation /= std::sqrt(2.0f * static_cast<float>(shape.layers));
  }
  const RandomStream random(seed, kFirstParameterStream + index);
  const float limit = std::sqrt(3.0f) * deviation;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (2.0f * random.Uniform(i) - 1.0f) * limit;
  }
}

}  // namespace rz
