// Stage 1: parameters and gradients are whole on every rank, the optimizer states are sharded. A
// bucket's gradients are reduced into this rank's shard of it; the optimizer turns that shard into
// new parameters in the same memory; gathering the shards gives everybody the bucket.
#ifndef RINGZERO_OPTIMIZER_SHARDED_STATES_POLICY_H_
#define RINGZERO_OPTIMIZER_SHARDED_STATES_POLICY_H_

#include "optimizer/stage_policy.h"

namespace rz {

class ShardedStatesPolicy : public StagePolicy {
 public:
  explicit ShardedStatesPolicy(StageParts parts) : parts_(parts) {}

  absl::StatusOr<Operation> StartReduce(const Bucket& bucket) override;
  const void* ReducedChunk(int64_t tile) const override;
  void Update(const Bucket& bucket, const StepConstants& step) override;
  absl::StatusOr<std::optional<Operation>> StartGather(const Bucket& bucket) override;
  void SetParameters(Range flat, const float* values) override;

 protected:
  const StageParts parts_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_SHARDED_STATES_POLICY_H_
