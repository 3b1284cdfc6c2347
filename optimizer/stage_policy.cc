#include "optimizer/stage_policy.h"

#include "optimizer/ddp_policy.h"
#include "optimizer/naive_policy.h"
#include "optimizer/sharded_states_policy.h"

namespace rz {

absl::StatusOr<Operation> StageParts::AllReduceGradients(const Bucket& bucket) const {
  void* gradients = state->GradientAt(bucket.flat.offset, dtype);
  return communicator->StartAllReduce(gradients, gradients, bucket.flat.count, dtype,
                                      ReduceOp::kAvg, call());
}

std::unique_ptr<StagePolicy> MakeStagePolicy(ZeroStage stage, StageParts parts) {
  if (stage == ZeroStage::kDdp) return std::make_unique<DdpPolicy>(parts);
  if (stage == ZeroStage::kNaive) return std::make_unique<NaivePolicy>(parts);
  return std::make_unique<ShardedStatesPolicy>(parts);
}

}  // namespace rz
