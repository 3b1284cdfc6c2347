// Stage 3: everything is sharded. A bucket's gradients are reduced into this rank's shard, the
// optimizer updates this rank's shard of the working parameters, and a unit is gathered when the
// model is about to use it (gathered_units.h); units that are always whole right after the step.
#ifndef RINGZERO_OPTIMIZER_SHARDED_PARAMETERS_POLICY_H_
#define RINGZERO_OPTIMIZER_SHARDED_PARAMETERS_POLICY_H_

#include "optimizer/sharded_states_policy.h"

namespace rz {

class ShardedParametersPolicy : public ShardedStatesPolicy {
 public:
  using ShardedStatesPolicy::ShardedStatesPolicy;

  absl::StatusOr<std::optional<Operation>> StartGather(const Bucket& bucket) override;
  void SetParameters(Range flat, const float* values) override;

 protected:
  void* UpdatedChunk(int64_t tile) const override;
  void* ParameterChunk(int64_t tile) const override;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_SHARDED_PARAMETERS_POLICY_H_
