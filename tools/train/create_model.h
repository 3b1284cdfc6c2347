// The model that an architecture names.
#ifndef RINGZERO_TOOLS_TRAIN_CREATE_MODEL_H_
#define RINGZERO_TOOLS_TRAIN_CREATE_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tools/train/architecture.h"
#include "tools/train/dataset.h"
#include "tools/train/model.h"

namespace rz {

// With room for passes of max_batch samples of `samples`, which has the vocabulary of a
// transformer.
//   ResourceExhausted  no memory for it
absl::StatusOr<std::unique_ptr<Model>> CreateModel(const Architecture& architecture,
                                                   const SampleSet& samples, int64_t max_batch);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_CREATE_MODEL_H_
