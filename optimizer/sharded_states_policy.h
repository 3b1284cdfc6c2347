// Stages 1 and 2: parameters are whole on every rank, the optimizer states are sharded; in stage 2
// so are the gradients, of which only open buckets are whole (bucket_buffers.h). A bucket's
// gradients are reduced into this rank's shard of it; the optimizer turns that shard into new
// parameters in the same memory; gathering the shards gives everybody the bucket.
#ifndef RINGZERO_OPTIMIZER_SHARDED_STATES_POLICY_H_
#define RINGZERO_OPTIMIZER_SHARDED_STATES_POLICY_H_

#include <algorithm>

#include "optimizer/stage_policy.h"

namespace rz {

class ShardedStatesPolicy : public StagePolicy {
 public:
  explicit ShardedStatesPolicy(StageParts parts) : parts_(parts) {}

  absl::StatusOr<std::optional<Operation>> StartReduce(const Bucket& bucket,
                                                       void* gradients) override;
  void Accumulate(const Bucket& bucket, bool first) override;
  ChunkStats Inspect(int64_t tile) const override;
  void Update(const Bucket& bucket, absl::Span<const StepConstants> step) override;
  absl::StatusOr<std::optional<Operation>> StartGather(const Bucket& bucket) override;
  void SetParameters(Range flat, const float* values) override;

 protected:
  // This rank's in `tile` as it is to be applied.
  const void* GradientChunk(int64_t tile) const;

  // What the last reduction left of this rank's chunk in `tile`.
  virtual const void* ReducedChunk(int64_t tile) const;

  // Where the optimizer puts this rank's working parameters of `tile`.
  virtual void* UpdatedChunk(int64_t tile) const;

  // Where working parameters of this rank's chunk in `tile` are kept.
  virtual void* ParameterChunk(int64_t tile) const;

  Range ChunkOf(int64_t tile) const {
    return parts_.partition->Chunk(tile, parts_.communicator->rank());
  }

  // Calls visit(values, offset in the shard, count) for each run of the flat range this rank owns.
  template <typename Visit>
  void ForOwned(Range flat, const float* values, Visit visit) const;

  void SetMaster(Range flat, const float* values) const;

  const StageParts parts_;
};

template <typename Visit>
void ShardedStatesPolicy::ForOwned(Range flat, const float* values, Visit visit) const {
  if (flat.count == 0) return;
  const int64_t last = parts_.partition->TileOf(flat.end() - 1);
  for (int64_t tile = parts_.partition->TileOf(flat.offset); tile <= last; ++tile) {
    const Range chunk = ChunkOf(tile);
    const int64_t begin = std::max(chunk.offset, flat.offset);
    const int64_t end = std::min(chunk.end(), flat.end());
    if (begin >= end) continue;
    visit(values + (begin - flat.offset),
          parts_.partition->ShardOffset(tile) + (begin - chunk.offset), end - begin);
  }
}

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_SHARDED_STATES_POLICY_H_
