#include "optimizer/model_state.h"

#include "collectives/kernels/convert.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr std::array<MemoryTag, kMaxOptimizerStates> kStateTags = {MemoryTag::kMoment1,
                                                                   MemoryTag::kMoment2};

}  // namespace

bool FusesStep(const ZeroConfig& config, const Communicator& communicator) {
  return config.fuse_step.value_or(FusingPays(config)) && config.stage == ZeroStage::kOne &&
         !AccumulatesShards(config) && GradientDType(config) == config.dtype &&
         config.shard_group_size == kAllRanks && communicator.RunsShardKernels(config.dtype);
}

absl::StatusOr<ModelState> ModelState::Allocate(Communicator* communicator,
                                                const Partition& partition,
                                                const ZeroConfig& config) {
  const bool sharded = config.stage != ZeroStage::kDdp;
  const size_t element_bytes = SizeOf(config.dtype);
  const size_t gradient_bytes = SizeOf(GradientDType(config));
  const size_t all = static_cast<size_t>(partition.padded_elements());
  const size_t shard = static_cast<size_t>(partition.shard_elements());
  const size_t owned = (sharded ? shard : all) * sizeof(float);
  const auto allocate = [&](size_t bytes, MemoryTag tag) {
    return Buffer::Allocate(bytes, tag, config.ledger);
  };

  ModelState state;
  const auto parameters =
      static_cast<size_t>(config.stage == ZeroStage::kThree ? partition.held_shard_elements()
                                                            : partition.held_elements());
  RZ_ASSIGN_OR_RETURN(state.parameters,
                      communicator->AllocateBuffer(parameters * element_bytes,
                                                   MemoryTag::kParameters, config.ledger));
  const bool whole_gradients = HoldsWholeGradients(config.stage);
  if (whole_gradients) {
    RZ_ASSIGN_OR_RETURN(
        state.gradients,
        communicator->AllocateBuffer(all * gradient_bytes, MemoryTag::kGradients, config.ledger));
  }
  const bool fuses = FusesStep(config, *communicator);
  const bool scatters = sharded && config.stage != ZeroStage::kNaive && !fuses;
  if (scatters) {
    RZ_ASSIGN_OR_RETURN(state.shard,
                        allocate(shard * gradient_bytes,
                                 whole_gradients ? MemoryTag::kBucket : MemoryTag::kGradients));
  }
  if (sharded && !fuses && config.stage != ZeroStage::kThree &&
      (!scatters || GradientDType(config) != config.dtype)) {
    RZ_ASSIGN_OR_RETURN(state.updated, allocate(shard * element_bytes, MemoryTag::kBucket));
  }
  if (config.dtype != DType::kFloat32) {
    RZ_ASSIGN_OR_RETURN(state.master, allocate(owned, MemoryTag::kMaster));
  }
  for (size_t i = 0; i < StateCount(config.optimizer); ++i) {
    RZ_ASSIGN_OR_RETURN(state.optimizer[i], allocate(owned, kStateTags[i]));
  }
  if (AccumulatesLocally(config)) {
    RZ_ASSIGN_OR_RETURN(state.accumulator, allocate(all * sizeof(float), MemoryTag::kAccumulator));
  } else if (AccumulatesShards(config)) {
    RZ_ASSIGN_OR_RETURN(state.accumulator, allocate(owned, MemoryTag::kAccumulator));
  }
  return state;
}

void ModelState::SetParameters(int64_t at, const float* values, int64_t count, DType dtype) const {
  ConvertFromFloat(dtype, ParameterAt(at, dtype), values, static_cast<size_t>(count));
}

}  // namespace rz
