#include "optimizer/bucket_buffers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/status_macros.h"

namespace rz {

BucketBuffers::BucketBuffers(Communicator* communicator, const FlatLayout* layout,
                             const Partition* partition, const ZeroConfig* config,
                             const ModelState* state)
    : communicator_(communicator),
      layout_(layout),
      partition_(partition),
      config_(config),
      state_(state),
      pooled_(!HoldsWholeGradients(config->stage)),
      of_bucket_(pooled_ ? static_cast<size_t>(partition->bucket_count()) : 0, kNone) {}

absl::StatusOr<CommunicatorBuffer> BucketBuffers::AllocateOne() const {
  return communicator_->AllocateBuffer(
      static_cast<size_t>(partition_->largest_bucket()) * SizeOf(GradientDType(*config_)),
      MemoryTag::kBucket, config_->ledger);
}

int64_t BucketBuffers::PoolSize() const {
  int64_t wanted = int64_t{config_->buckets_in_flight} + 1;
  if (config_->stage == ZeroStage::kThree) {
    int64_t of_a_unit = 0;
    for (size_t unit = 0; unit < layout_->unit_count(); ++unit) {
      const Range flat = layout_->unit(unit).flat;
      if (flat.count == 0) continue;
      of_a_unit = std::max(
          of_a_unit, partition_->BucketOf(flat.end() - 1) - partition_->BucketOf(flat.offset) + 1);
    }
    wanted = 2 * of_a_unit;
  }
  return std::min(wanted, partition_->bucket_count());
}

absl::Status BucketBuffers::Allocate() {
  if (!pooled_) return absl::OkStatus();
  for (int64_t i = PoolSize(); i > 0; --i) RZ_RETURN_IF_ERROR(Grow());
  return absl::OkStatus();
}

absl::Status BucketBuffers::Grow() {
  RZ_ASSIGN_OR_RETURN(CommunicatorBuffer buffer, AllocateOne());
  free_.push_back(static_cast<int>(pool_.size()));
  pool_.push_back(std::move(buffer));
  return absl::OkStatus();
}

std::byte* BucketBuffers::Open(const Bucket& bucket) {
  if (!pooled_) {
    return static_cast<std::byte*>(state_->GradientAt(bucket.flat.offset, GradientDType(*config_)));
  }
  int& place = of_bucket_[static_cast<size_t>(bucket.index)];
  if (place == kNone) {
    if (free_.empty()) return nullptr;
    place = free_.back();
    free_.pop_back();
    std::memset(pool_[static_cast<size_t>(place)].data(), 0,
                static_cast<size_t>(bucket.flat.count) * SizeOf(GradientDType(*config_)));
  }
  return pool_[static_cast<size_t>(place)].data();
}

absl::StatusOr<std::byte*> BucketBuffers::ToReduce(const Bucket& bucket) {
  if (!pooled_) return Open(bucket);
  const int place = of_bucket_[static_cast<size_t>(bucket.index)];
  if (place != kNone) return pool_[static_cast<size_t>(place)].data();
  if (zeros_.size() == 0) {
    RZ_ASSIGN_OR_RETURN(zeros_, AllocateOne());
  }
  return zeros_.data();
}

void BucketBuffers::Close(const Bucket& bucket) {
  if (!pooled_) return;
  int& place = of_bucket_[static_cast<size_t>(bucket.index)];
  if (place == kNone) return;
  free_.push_back(place);
  place = kNone;
}

}  // namespace rz
