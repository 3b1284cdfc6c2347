#include "tools/train/create_model.h"

#include "tools/train/mlp.h"

namespace rz {

absl::StatusOr<std::unique_ptr<Model>> CreateModel(const TrainConfig& config, int64_t max_batch) {
  return Mlp::Create(config.model, max_batch);
}

}  // namespace rz
