#include "tools/train/batch_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/chunk_layout.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

// Streams of the seed: one an epoch, away from those of parameters and data.
constexpr uint64_t kFirstEpochStream = uint64_t{1} << 32;

}  // namespace

BatchOrder::BatchOrder(int64_t sample_count, int64_t global_batch, uint64_t seed)
    : sample_count_(sample_count),
      global_batch_(global_batch),
      seed_(seed),
      steps_per_epoch_((sample_count + global_batch - 1) / global_batch),
      permutation_(static_cast<size_t>(sample_count)) {}

void BatchOrder::Shuffle(int64_t epoch) {
  const RandomStream random(seed_, kFirstEpochStream + static_cast<uint64_t>(epoch));
  std::iota(permutation_.begin(), permutation_.end(), 0);
  for (size_t left = permutation_.size(); left > 1; --left) {
    std::swap(permutation_[left - 1], permutation_[random.Below(left, left)]);
  }
  shuffled_epoch_ = epoch;
}

absl::Span<const int64_t> BatchOrder::GlobalBatch(int64_t step) {
  const int64_t epoch = step / steps_per_epoch_;
  if (epoch != shuffled_epoch_) Shuffle(epoch);
  const int64_t begin = step % steps_per_epoch_ * global_batch_;
  const int64_t end = std::min(begin + global_batch_, sample_count_);
  return absl::MakeConstSpan(permutation_)
      .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

absl::Span<const int64_t> BatchOrder::LocalBatch(int64_t step, Rank rank, int world) {
  const absl::Span<const int64_t> batch = GlobalBatch(step);
  const Range share = EvenSplit(static_cast<int64_t>(batch.size()), world, rank.value());
  return batch.subspan(static_cast<size_t>(share.offset), static_cast<size_t>(share.count));
}

}  // namespace rz
