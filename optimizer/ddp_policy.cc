#include "optimizer/ddp_policy.h"

#include <algorithm>

#include "optimizer/float_sum.h"

namespace rz {

absl::StatusOr<std::optional<Operation>> DdpPolicy::StartReduce(const Bucket& bucket,
                                                                void* gradients) {
  return parts_.AllReduce(bucket, gradients);
}

void DdpPolicy::Accumulate(const Bucket& bucket, bool first) {
  const int64_t at = bucket.flat.offset;
  AddAsFloat(parts_.gradient_dtype, parts_.state->AccumulatorAt(at),
             parts_.state->GradientAt(at, parts_.gradient_dtype),
             static_cast<size_t>(bucket.flat.count), first);
}

const void* DdpPolicy::GradientAt(int64_t flat_index) const {
  if (parts_.accumulates_shard) return parts_.state->AccumulatorAt(flat_index);
  return parts_.state->GradientAt(flat_index, parts_.gradient_dtype);
}

ChunkStats DdpPolicy::Inspect(int64_t tile) const {
  const Range chunk = parts_.partition->Chunk(tile, parts_.communicator->rank());
  return parts_.InspectChunk(chunk, GradientAt(chunk.offset));
}

void DdpPolicy::Update(const Bucket& bucket, absl::Span<const StepConstants> step) {
  const int64_t at = bucket.flat.offset;
  void* working = parts_.state->ParameterAt(at, parts_.dtype);
  float* master =
      parts_.state->has_master() ? parts_.state->MasterAt(at) : static_cast<float*>(working);
  parts_.UpdatePiece(bucket.flat, step, GradientAt(at), master, parts_.state->OptimizerAt(at),
                     working);
}

absl::StatusOr<std::optional<Operation>> DdpPolicy::StartGather(const Bucket&) {
  return std::optional<Operation>();
}

void DdpPolicy::SetParameters(Range flat, const float* values) {
  parts_.state->SetParameters(flat.offset, values, flat.count, parts_.dtype);
  if (parts_.HasMaster(flat)) std::copy_n(values, flat.count, parts_.state->MasterAt(flat.offset));
}

}  // namespace rz
