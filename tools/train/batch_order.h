// Which samples a step trains on, and which of them are a rank's: a function of the seed, so all
// ranks agree without a message, and any number of ranks sees the same samples in the same steps.
//
// Each epoch is one permutation of all samples (Fisher-Yates over the seed's stream of that epoch),
// cut into global batches; the last may be smaller. A global batch is split evenly in its order:
// the first of R left-over samples goes to rank 0 (EvenSplit), and a rank may get none.
#ifndef RINGZERO_TOOLS_TRAIN_BATCH_ORDER_H_
#define RINGZERO_TOOLS_TRAIN_BATCH_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/types.h"

namespace rz {

class BatchOrder {
 public:
  // sample_count >= 1, 1 <= global_batch <= sample_count.
  BatchOrder(int64_t sample_count, int64_t global_batch, uint64_t seed);

  int64_t steps_per_epoch() const { return steps_per_epoch_; }

  // Samples of all ranks in step `step` (0, 1, 2, ... over all epochs). The span lives until the
  // next call.
  absl::Span<const int64_t> GlobalBatch(int64_t step);

  // The part of it that is `rank`'s among `world` ranks.
  absl::Span<const int64_t> LocalBatch(int64_t step, Rank rank, int world);

 private:
  void Shuffle(int64_t epoch);

  int64_t sample_count_;
  int64_t global_batch_;
  uint64_t seed_;
  int64_t steps_per_epoch_;
  int64_t shuffled_epoch_ = -1;
  std::vector<int64_t> permutation_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_BATCH_ORDER_H_
