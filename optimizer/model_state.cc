#include "optimizer/model_state.h"

#include <algorithm>

#include "collectives/kernels/convert.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr std::array<MemoryTag, kMaxOptimizerStates> kStateTags = {MemoryTag::kMoment1,
                                                                   MemoryTag::kMoment2};

}  // namespace

absl::StatusOr<ModelState> ModelState::Allocate(const Partition& partition,
                                                const ZeroConfig& config) {
  const bool sharded = config.stage != ZeroStage::kDdp;
  const size_t element_bytes = SizeOf(config.dtype);
  const size_t all = static_cast<size_t>(partition.padded_elements());
  const size_t shard = static_cast<size_t>(partition.shard_elements());
  const size_t owned = (sharded ? shard : all) * sizeof(float);

  ModelState state;
  RZ_ASSIGN_OR_RETURN(state.parameters,
                      Buffer::Allocate(all * element_bytes, MemoryTag::kParameters, config.ledger));
  RZ_ASSIGN_OR_RETURN(state.gradients,
                      Buffer::Allocate(all * element_bytes, MemoryTag::kGradients, config.ledger));
  if (config.dtype != DType::kFloat32) {
    RZ_ASSIGN_OR_RETURN(state.master, Buffer::Allocate(owned, MemoryTag::kMaster, config.ledger));
  }
  for (size_t i = 0; i < StateCount(config.optimizer); ++i) {
    RZ_ASSIGN_OR_RETURN(state.optimizer[i], Buffer::Allocate(owned, kStateTags[i], config.ledger));
  }
  if (sharded) {
    RZ_ASSIGN_OR_RETURN(state.shard,
                        Buffer::Allocate(shard * element_bytes, MemoryTag::kBucket, config.ledger));
  }
  return state;
}

void ModelState::SetParameters(Range flat, const float* values, DType dtype) const {
  if (dtype == DType::kFloat32) {
    std::copy_n(values, flat.count, parameters.as<float>().data() + flat.offset);
    return;
  }
  uint16_t* working = parameters.as<uint16_t>().data() + flat.offset;
  for (int64_t i = 0; i < flat.count; ++i) {
    working[i] = dtype == DType::kBFloat16 ? FloatToBFloat16(values[i]) : FloatToFloat16(values[i]);
  }
}

}  // namespace rz
