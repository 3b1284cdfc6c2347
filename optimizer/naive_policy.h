// Stage naive: as stage 1, but the gradients are all-reduced whole, of which each rank needs its
// shard alone. What ZeRO costs without reduce_scatter: a baseline for the wire.
#ifndef RINGZERO_OPTIMIZER_NAIVE_POLICY_H_
#define RINGZERO_OPTIMIZER_NAIVE_POLICY_H_

#include "optimizer/sharded_states_policy.h"

namespace rz {

class NaivePolicy : public ShardedStatesPolicy {
 public:
  using ShardedStatesPolicy::ShardedStatesPolicy;

  absl::StatusOr<std::optional<Operation>> StartReduce(const Bucket& bucket,
                                                       void* gradients) override;

 protected:
  const void* ReducedChunk(int64_t tile) const override;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_NAIVE_POLICY_H_
