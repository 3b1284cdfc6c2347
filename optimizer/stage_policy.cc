#include "optimizer/stage_policy.h"

#include "optimizer/ddp_policy.h"
#include "optimizer/sharded_states_policy.h"

namespace rz {

std::unique_ptr<StagePolicy> MakeStagePolicy(ZeroStage stage, StageParts parts) {
  if (stage == ZeroStage::kDdp) return std::make_unique<DdpPolicy>(parts);
  return std::make_unique<ShardedStatesPolicy>(parts);
}

}  // namespace rz
