#include "tools/train/mlp_shape.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/train/limits.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

// Streams of the seed: one a parameter, away from those of the data.
constexpr uint64_t kFirstParameterStream = 1000;

}  // namespace

std::vector<ModelParameter> MlpShape::Parameters() const {
  std::vector<ModelParameter> parameters;
  for (size_t layer = 0; layer < layer_count(); ++layer) {
    const int64_t in = widths[layer];
    const int64_t out = widths[layer + 1];
    parameters.push_back({absl::StrCat("layer", layer + 1, ".weight"), {in, out}, in * out, layer});
    parameters.push_back({absl::StrCat("layer", layer + 1, ".bias"), {out}, out, layer});
  }
  return parameters;
}

int64_t MlpShape::ParameterCount() const {
  int64_t count = 0;
  for (const ModelParameter& parameter : Parameters()) count += parameter.element_count;
  return count;
}

std::string MlpShape::ToString() const { return absl::StrJoin(widths, "-"); }

absl::StatusOr<MlpShape> ParseMlpShape(const std::string& text) {
  MlpShape shape;
  for (absl::string_view part : absl::StrSplit(text, '-')) {
    int64_t width = 0;
    if (!absl::SimpleAtoi(part, &width) || width < 1 || width > kMaxModelWidth) {
      return absl::InvalidArgumentError(
          absl::StrCat("model \"", text, "\": expected widths from 1 to ", kMaxModelWidth,
                       " joined by '-', like 784-256-128-100-10, found \"", part, "\""));
    }
    shape.widths.push_back(width);
  }
  if (shape.widths.size() < kMinModelWidths || shape.widths.size() > kMaxModelWidths) {
    return absl::InvalidArgumentError(
        absl::StrCat("model \"", text, "\": expected ", kMinModelWidths, " to ", kMaxModelWidths,
                     " widths (input, hidden layers, classes), found ", shape.widths.size()));
  }
  if (shape.ParameterCount() > kMaxModelParameters) {
    return absl::InvalidArgumentError(absl::StrCat("model \"", text, "\": expected at most ",
                                                   kMaxModelParameters, " parameters, found ",
                                                   shape.ParameterCount()));
  }
  return shape;
}

void InitialParameter(const MlpShape& shape, size_t index, uint64_t seed,
                      absl::Span<float> values) {
  const bool is_bias = index % 2 == 1;
  if (is_bias) {
    std::fill(values.begin(), values.end(), 0.0f);
    return;
  }
  const RandomStream random(seed, kFirstParameterStream + index);
  const float limit = std::sqrt(6.0f / static_cast<float>(shape.widths[index / 2]));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (2.0f * random.Uniform(i) - 1.0f) * limit;
  }
}

}  // namespace rz
