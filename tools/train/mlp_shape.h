// The shape of a multilayer perceptron and the parameters it has.
#ifndef RINGZERO_TOOLS_TRAIN_MLP_SHAPE_H_
#define RINGZERO_TOOLS_TRAIN_MLP_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rz {

// A parameter tensor: weight [inputs, outputs] or bias [outputs] of one layer, row-major.
struct MlpParameter {
  std::string name;  // "layer1.weight", "layer1.bias", "layer2.weight", ...
  std::vector<int64_t> shape;
  int64_t element_count = 0;
};

struct MlpShape {
  std::vector<int64_t> widths;  // input, hidden layers, classes

  int64_t inputs() const { return widths.front(); }
  int64_t classes() const { return widths.back(); }
  size_t layer_count() const { return widths.size() - 1; }

  // In declaration order: weight and bias of layer 1, of layer 2, and so on.
  std::vector<MlpParameter> Parameters() const;
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
