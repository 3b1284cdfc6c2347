#include "optimizer/stage_policy.h"

#include "optimizer/ddp_policy.h"
#include "optimizer/naive_policy.h"
#include "optimizer/sharded_parameters_policy.h"
#include "optimizer/sharded_states_policy.h"

namespace rz {

absl::StatusOr<Operation> StageParts::AllReduce(const Bucket& bucket, void* gradients) const {
  return communicator->StartAllReduce(gradients, gradients, bucket.flat.count, dtype, op, call());
}

std::unique_ptr<StagePolicy> MakeStagePolicy(ZeroStage stage, StageParts parts) {
  switch (stage) {
    case ZeroStage::kDdp:
      return std::make_unique<DdpPolicy>(parts);
    case ZeroStage::kNaive:
      return std::make_unique<NaivePolicy>(parts);
    case ZeroStage::kOne:
    case ZeroStage::kTwo:
      return std::make_unique<ShardedStatesPolicy>(parts);
    case ZeroStage::kThree:
      break;
  }
  return std::make_unique<ShardedParametersPolicy>(parts);
}

}  // namespace rz
