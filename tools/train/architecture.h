// What model a run trains, as --model says: a multilayer perceptron over images, or a transformer
// over text.
#ifndef RINGZERO_TOOLS_TRAIN_ARCHITECTURE_H_
#define RINGZERO_TOOLS_TRAIN_ARCHITECTURE_H_

#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "tools/train/mlp_shape.h"
#include "tools/train/transformer_shape.h"

namespace rz {

class Architecture {
 public:
  Architecture() = default;
  Architecture(MlpShape shape) : shape_(std::move(shape)) {}      // NOLINT: is one
  Architecture(const TransformerShape& shape) : shape_(shape) {}  // NOLINT: is one

  // Null where it is the other.
  const MlpShape* mlp() const { return std::get_if<MlpShape>(&shape_); }
  const TransformerShape* transformer() const { return std::get_if<TransformerShape>(&shape_); }

  std::string ToString() const {
    return mlp() != nullptr ? mlp()->ToString() : transformer()->ToString();
  }

 private:
  std::variant<MlpShape, TransformerShape> shape_;
};

// Reads either kind of text.
//   InvalidArgument  as ParseMlpShape and ParseTransformerShape
inline absl::StatusOr<Architecture> ParseArchitecture(const std::string& text) {
  if (IsTransformerText(text)) return ParseTransformerShape(text);
  return ParseMlpShape(text);
}

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_ARCHITECTURE_H_
