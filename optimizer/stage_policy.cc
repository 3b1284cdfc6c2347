#include "optimizer/stage_policy.h"

#include "optimizer/ddp_policy.h"
#include "optimizer/naive_policy.h"
#include "optimizer/sharded_parameters_policy.h"
#include "optimizer/sharded_states_policy.h"

namespace rz {

absl::StatusOr<Operation> StageParts::AllReduce(const Bucket& bucket, void* gradients) const {
  return communicator->StartAllReduce(gradients, gradients, bucket.flat.count, gradient_dtype, op,
                                      call());
}

void StageParts::UpdatePiece(Range flat, absl::Span<const StepConstants> step, const void* gradient,
                             float* master, const StateAddresses& states, void* working) const {
  groups->ForEach(flat, [&](int64_t offset, int64_t count, size_t group) {
    StateAddresses run = states;
    for (float*& state : run) state = state == nullptr ? nullptr : state + offset;
    const auto at = static_cast<size_t>(offset);
    kernel.Update(step[group], static_cast<const std::byte*>(gradient) + at * SizeOf(applied_dtype),
                  master + offset, run, static_cast<std::byte*>(working) + at * SizeOf(dtype),
                  static_cast<size_t>(count));
  });
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
