#include "tools/train/create_model.h"

#include "tools/train/mlp.h"
#include "tools/train/transformer.h"

namespace rz {

absl::StatusOr<std::unique_ptr<Model>> CreateModel(const Architecture& architecture,
                                                   const SampleSet& samples, int64_t max_batch) {
  if (architecture.mlp() != nullptr) return Mlp::Create(*architecture.mlp(), max_batch);
  TransformerShape shape = *architecture.transformer();
  shape.vocabulary = samples.class_count();
  return Transformer::Create(shape, max_batch);
}

}  // namespace rz
