#include "optimizer/sharded_states_policy.h"

#include <algorithm>

#include "optimizer/float_sum.h"
#include "runtime/base/status_macros.h"

namespace rz {

absl::StatusOr<std::optional<Operation>> ShardedStatesPolicy::StartReduce(const Bucket& bucket,
                                                                          void* gradients) {
  return parts_.communicator->StartReduceScatter(
      gradients, parts_.state->ShardAt(bucket.shard.offset, parts_.gradient_dtype),
      bucket.flat.count, parts_.gradient_dtype, parts_.op, parts_.call());
}

const void* ShardedStatesPolicy::ReducedChunk(int64_t tile) const {
  return parts_.state->ShardAt(parts_.partition->ShardOffset(tile), parts_.gradient_dtype);
}

void* ShardedStatesPolicy::UpdatedChunk(int64_t tile) const {
  return parts_.state->UpdatedAt(parts_.partition->ShardOffset(tile), parts_.dtype);
}

void* ShardedStatesPolicy::ParameterChunk(int64_t tile) const {
  return parts_.state->ParameterAt(ChunkOf(tile).offset, parts_.dtype);
}

void ShardedStatesPolicy::Accumulate(const Bucket& bucket, bool first) {
  for (int64_t tile = bucket.first_tile; tile < bucket.first_tile + bucket.tile_count; ++tile) {
    AddAsFloat(parts_.gradient_dtype,
               parts_.state->AccumulatorAt(parts_.partition->ShardOffset(tile)), ReducedChunk(tile),
               static_cast<size_t>(ChunkOf(tile).count), first);
  }
}

const void* ShardedStatesPolicy::GradientChunk(int64_t tile) const {
  if (!parts_.accumulates_shard) return ReducedChunk(tile);
  return parts_.state->AccumulatorAt(parts_.partition->ShardOffset(tile));
}

ChunkStats ShardedStatesPolicy::Inspect(int64_t tile) const {
  return parts_.InspectChunk(ChunkOf(tile), GradientChunk(tile));
}

void ShardedStatesPolicy::Update(const Bucket& bucket, absl::Span<const StepConstants> step) {
  for (int64_t tile = bucket.first_tile; tile < bucket.first_tile + bucket.tile_count; ++tile) {
    const int64_t at = parts_.partition->ShardOffset(tile);
    // In float32 the master is the working parameters; gathering rewrites them with the same bits.
    float* master = parts_.state->has_master() ? parts_.state->MasterAt(at)
                                               : static_cast<float*>(ParameterChunk(tile));
    parts_.UpdatePiece(ChunkOf(tile), step, GradientChunk(tile), master,
                       parts_.state->OptimizerAt(at), UpdatedChunk(tile));
  }
}

absl::StatusOr<std::optional<Operation>> ShardedStatesPolicy::StartGather(const Bucket& bucket) {
  RZ_ASSIGN_OR_RETURN(const Operation operation,
                      parts_.communicator->StartAllGather(
                          parts_.state->UpdatedAt(bucket.shard.offset, parts_.dtype),
                          parts_.state->ParameterAt(bucket.flat.offset, parts_.dtype),
                          bucket.flat.count, parts_.dtype, parts_.call()));
  return std::optional<Operation>(operation);
}

void ShardedStatesPolicy::SetMaster(Range flat, const float* values) const {
  if (!parts_.HasMaster(flat)) return;
  ForOwned(flat, values, [this](const float* from, int64_t offset, int64_t count) {
    std::copy_n(from, count, parts_.state->MasterAt(offset));
  });
}

void ShardedStatesPolicy::SetParameters(Range flat, const float* values) {
  parts_.state->SetParameters(flat.offset, values, flat.count, parts_.dtype);
  SetMaster(flat, values);
}

}  // namespace rz
