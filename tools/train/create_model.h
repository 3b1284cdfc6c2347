// The model that a configuration names.
#ifndef RINGZERO_TOOLS_TRAIN_CREATE_MODEL_H_
#define RINGZERO_TOOLS_TRAIN_CREATE_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tools/train/model.h"
#include "tools/train/train_config.h"

namespace rz {

// With room for passes of max_batch samples.
//   ResourceExhausted  no memory for it
absl::StatusOr<std::unique_ptr<Model>> CreateModel(const TrainConfig& config, int64_t max_batch);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_CREATE_MODEL_H_
