#include "optimizer/replica_reducer.h"

#include <algorithm>
#include <utility>

#include "optimizer/step_trace.h"
#include "runtime/base/status_macros.h"

namespace rz {

absl::Status ReplicaReducer::Allocate(absl::Span<const int64_t> segments) {
  if (replica_ == nullptr) return absl::OkStatus();
  const int64_t run = std::max<int64_t>(config_->reduce_bucket_size / config_->shard_group_size, 1);
  RZ_ASSIGN_OR_RETURN(shard_,
                      Partition::Create(segments, replica_->world_size(),
                                        {.tile_chunk = config_->tile_chunk, .bucket_size = run}));
  operations_.resize(static_cast<size_t>(shard_->bucket_count()));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ReplicaReducer::Advance(int64_t ready) {
  if (replica_ == nullptr) return ready;
  const StepSection moving(timeline_, StepPart::kCommunication);
  while (completed_ < started_) {
    std::optional<Operation>& operation = operations_[static_cast<size_t>(completed_)];
    if (!operation->Poll()) break;
    RZ_RETURN_IF_ERROR(operation->status());
    operation.reset();
    timeline_->CollectiveEnded(TraceKind::kReplicas, PlaceOf(shard_->bucket(completed_)));
    ++completed_;
  }
  while (started_ < shard_->bucket_count() && started_ - completed_ < config_->buckets_in_flight) {
    const Bucket run = shard_->bucket(started_);
    if (run.flat.end() > ready) break;
    RZ_RETURN_IF_ERROR(StartNext(run));
  }
  return completed_ == 0 ? 0 : shard_->bucket(completed_ - 1).flat.end();
}

absl::Status ReplicaReducer::StartNext(const Bucket& run) {
  const DType dtype = GradientDType(*config_);
  void* gradients = state_->ShardAt(run.flat.offset, dtype);
  // A mean has been divided by all ranks within the group.
  RZ_ASSIGN_OR_RETURN(
      operations_[static_cast<size_t>(started_)],
      replica_->StartAllReduce(gradients, gradients, run.flat.count, dtype, ReduceOp::kSum,
                               {.tile_chunk = shard_->tile_chunk()}));
  ++started_;
  timeline_->CollectiveBegan(TraceKind::kReplicas, PlaceOf(run),
                             run.flat.count * static_cast<int64_t>(SizeOf(dtype)));
  return absl::OkStatus();
}

Operation* ReplicaReducer::awaited() {
  return completed_ < started_ ? &*operations_[static_cast<size_t>(completed_)] : nullptr;
}

void ReplicaReducer::Drain() {
  for (std::optional<Operation>& operation : operations_) {
    while (operation && !operation->Poll()) {
    }
  }
}

}  // namespace rz
