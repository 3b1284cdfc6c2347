// The batch triangle: train_batch_size = micro_batch_size * accumulation_steps * ranks.
#ifndef RINGZERO_OPTIMIZER_CONFIG_BATCH_SIZE_H_
#define RINGZERO_OPTIMIZER_CONFIG_BATCH_SIZE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace rz {

struct BatchSizes {
  int64_t train = 0;
  int64_t micro = 0;
  int64_t accumulation = 0;
};

// Any two give the third; one of the batch sizes alone, with an accumulation of 1, the other.
//   InvalidArgument  neither batch size; a size below 1; sizes that do not multiply, with what
//                    would
absl::StatusOr<BatchSizes> SolveBatchSizes(std::optional<int64_t> train,
                                           std::optional<int64_t> micro,
                                           std::optional<int64_t> accumulation, int ranks);

// A step of `train` samples, which ranks and micro-steps need not divide: of `accumulation`
// micro-steps, or else as many as keep a rank's share of one within `micro`, or else one. `micro`
// of the result is the largest such share.
//   InvalidArgument  a size below 1
absl::StatusOr<BatchSizes> ShareBatch(int64_t train, std::optional<int64_t> micro,
                                      std::optional<int64_t> accumulation, int ranks);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_CONFIG_BATCH_SIZE_H_
