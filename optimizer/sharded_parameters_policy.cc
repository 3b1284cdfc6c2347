#include "optimizer/sharded_parameters_policy.h"

#include "collectives/kernels/convert.h"
#include "runtime/base/status_macros.h"

namespace rz {

void* ShardedParametersPolicy::UpdatedChunk(int64_t tile) const { return ParameterChunk(tile); }

void* ShardedParametersPolicy::ParameterChunk(int64_t tile) const {
  return parts_.state->ParameterAt(parts_.partition->ShardOffset(tile), parts_.dtype);
}

absl::StatusOr<std::optional<Operation>> ShardedParametersPolicy::StartGather(
    const Bucket& bucket) {
  void* whole = parts_.units->PersistentAt(bucket.flat.offset);
  if (whole == nullptr) return std::optional<Operation>();
  RZ_ASSIGN_OR_RETURN(const Operation operation,
                      parts_.communicator->StartAllGather(
                          parts_.state->ParameterAt(bucket.shard.offset, parts_.dtype), whole,
                          bucket.flat.count, parts_.dtype, parts_.call()));
  return std::optional<Operation>(operation);
}

void ShardedParametersPolicy::SetParameters(Range flat, const float* values) {
  ForOwned(flat, values, [this](const float* from, int64_t offset, int64_t count) {
    parts_.state->SetParameters(offset, from, count, parts_.dtype);
  });
  SetMaster(flat, values);
  if (void* whole = parts_.units->PersistentAt(flat.offset); whole != nullptr) {
    ConvertFromFloat(parts_.dtype, whole, values, static_cast<size_t>(flat.count));
  }
}

}  // namespace rz
