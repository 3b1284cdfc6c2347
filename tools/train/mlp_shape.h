// The shape of a multilayer perceptron and the parameters it has.
#ifndef RINGZERO_TOOLS_TRAIN_MLP_SHAPE_H_
#define RINGZERO_TOOLS_TRAIN_MLP_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/train/model_parameter.h"

namespace rz {

struct MlpShape {
  std::vector<int64_t> widths;  // input, hidden layers, classes

  int64_t inputs() const { return widths.front(); }
  int64_t classes() const { return widths.back(); }
  size_t layer_count() const { return widths.size() - 1; }

  // In declaration order: "layer1.weight" [inputs, outputs] and "layer1.bias" [outputs], those of
  // layer 2, and so on. A layer is a unit.
  std::vector<ModelParameter> Parameters() const;
  int64_t ParameterCount() const;

  // "784-256-128-100-10".
  std::string ToString() const;
};

// Reads such a text.
//   InvalidArgument  not whole numbers joined by '-', or outside the limits of limits.h
absl::StatusOr<MlpShape> ParseMlpShape(const std::string& text);

// First values of parameter `index` (as in Parameters()): He initialisation for ReLU, weights
// uniform in +-sqrt(6 / inputs), biases 0 (He et al.: Delving deep into rectifiers, 2015). A
// function of the arguments alone.
void InitialParameter(const MlpShape& shape, size_t index, uint64_t seed, absl::Span<float> values);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_MLP_SHAPE_H_
