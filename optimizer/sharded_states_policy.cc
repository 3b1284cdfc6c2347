#include "optimizer/sharded_states_policy.h"

#include <algorithm>

#include "runtime/base/status_macros.h"

namespace rz {

absl::StatusOr<Operation> ShardedStatesPolicy::StartReduce(const Bucket& bucket) {
  return parts_.communicator->StartReduceScatter(
      parts_.state->GradientAt(bucket.flat.offset, parts_.dtype),
      parts_.state->ShardAt(bucket.shard.offset, parts_.dtype), bucket.flat.count, parts_.dtype,
      ReduceOp::kAvg, parts_.call());
}

const void* ShardedStatesPolicy::ReducedChunk(int64_t tile) const {
  return parts_.state->ShardAt(parts_.partition->ShardOffset(tile), parts_.dtype);
}

void ShardedStatesPolicy::Update(const Bucket& bucket, const StepConstants& step) {
  for (int64_t tile = bucket.first_tile; tile < bucket.first_tile + bucket.tile_count; ++tile) {
    const Range chunk = parts_.partition->Chunk(tile, parts_.communicator->rank());
    const int64_t at = parts_.partition->ShardOffset(tile);
    void* shard = parts_.state->ShardAt(at, parts_.dtype);
    // In float32 the master is the working parameters; gathering rewrites them with the same bits.
    float* master =
        parts_.state->has_master()
            ? parts_.state->MasterAt(at)
            : static_cast<float*>(parts_.state->ParameterAt(chunk.offset, parts_.dtype));
    parts_.kernel.Update(step, ReducedChunk(tile), master, parts_.state->OptimizerAt(at), shard,
                         static_cast<size_t>(chunk.count));
  }
}

absl::StatusOr<std::optional<Operation>> ShardedStatesPolicy::StartGather(const Bucket& bucket) {
  RZ_ASSIGN_OR_RETURN(const Operation operation,
                      parts_.communicator->StartAllGather(
                          parts_.state->ShardAt(bucket.shard.offset, parts_.dtype),
                          parts_.state->ParameterAt(bucket.flat.offset, parts_.dtype),
                          bucket.flat.count, parts_.dtype, parts_.call()));
  return std::optional<Operation>(operation);
}

void ShardedStatesPolicy::SetParameters(Range flat, const float* values) {
  parts_.state->SetParameters(flat, values, parts_.dtype);
  if (!parts_.state->has_master() || flat.count == 0) return;
  const Partition& chunks = *parts_.partition;
  const int64_t last = parts_.partition->TileOf(flat.end() - 1);
  for (int64_t tile = parts_.partition->TileOf(flat.offset); tile <= last; ++tile) {
    const Range chunk = chunks.Chunk(tile, parts_.communicator->rank());
    const int64_t begin = std::max(chunk.offset, flat.offset);
    const int64_t end = std::min(chunk.end(), flat.end());
    if (begin >= end) continue;
    std::copy_n(values + (begin - flat.offset), end - begin,
                parts_.state->MasterAt(chunks.ShardOffset(tile) + (begin - chunk.offset)));
  }
}

}  // namespace rz
