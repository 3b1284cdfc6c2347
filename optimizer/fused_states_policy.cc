#include "optimizer/fused_states_policy.h"

#include <algorithm>
#include <cmath>

namespace rz {

FusedStatesPolicy::FusedStatesPolicy(StageParts parts, const ZeroConfig& config)
    : ShardedStatesPolicy(parts),
      inspects_(config.inspect_gradients),
      stats_(static_cast<size_t>(parts.partition->tile_count())) {
  const int64_t buckets = parts.partition->bucket_count();
  inspections_.reserve(static_cast<size_t>(buckets));
  renewals_.reserve(static_cast<size_t>(buckets));
  for (int64_t b = 0; b < buckets; ++b) {
    inspections_.emplace_back(this, parts.partition->bucket(b));
    renewals_.emplace_back(this, parts.partition->bucket(b));
  }
}

CallOptions FusedStatesPolicy::CallWith(ShardKernel* kernel) const {
  CallOptions call = parts_.call();
  call.kernel = kernel;
  return call;
}

absl::StatusOr<std::optional<Operation>> FusedStatesPolicy::StartReduce(const Bucket& bucket,
                                                                        void* gradients) {
  if (!inspects_) return std::optional<Operation>();
  const auto first = stats_.begin() + bucket.first_tile;
  std::fill(first, first + bucket.tile_count, ChunkStats());
  return parts_.communicator->StartReduceScatter(
      gradients, nullptr, bucket.flat.count, parts_.dtype, parts_.op,
      CallWith(&inspections_[static_cast<size_t>(bucket.index)]));
}

absl::StatusOr<std::optional<Operation>> FusedStatesPolicy::StartGather(const Bucket& bucket) {
  return parts_.communicator->StartAllReduce(
      parts_.state->GradientAt(bucket.flat.offset, parts_.dtype),
      parts_.state->ParameterAt(bucket.flat.offset, parts_.dtype), bucket.flat.count, parts_.dtype,
      parts_.op, CallWith(&renewals_[static_cast<size_t>(bucket.index)]));
}

void FusedStatesPolicy::Pass::Run(int64_t offset, int64_t count, void* elements) {
  const StepSection computing(policy_->parts_.timeline, StepPart::kOptimizer);
  const int64_t in_tile = offset % policy_->parts_.partition->tile_chunk();
  const int64_t tile = bucket_.first_tile + offset / policy_->parts_.partition->tile_chunk();
  Work(tile, {policy_->ChunkOf(tile).offset + in_tile, count}, elements);
}

void FusedStatesPolicy::Inspection::Work(int64_t tile, Range piece, void* elements) {
  ChunkStats& stats = policy_->stats_[static_cast<size_t>(tile)];
  const DType dtype = policy_->parts_.dtype;
  squares_.Add(dtype, elements, static_cast<size_t>(piece.count));
  // Stays so from the first element on that is not finite.
  stats.sum_of_squares = squares_.Total();
  if (!std::isfinite(stats.sum_of_squares)) {
    stats.AddNonFinite(dtype, elements, piece.offset, piece.count);
  }
  if (piece.end() == policy_->ChunkOf(tile).end()) squares_ = SquaresSum();
}

void FusedStatesPolicy::Renewal::Work(int64_t tile, Range piece, void* elements) {
  const ModelState& state = *policy_->parts_.state;
  const int64_t at =
      policy_->parts_.partition->ShardOffset(tile) + (piece.offset - policy_->ChunkOf(tile).offset);
  // In float32 the master is the working parameters; they are stored again with the same bits.
  float* const master =
      state.has_master()
          ? state.MasterAt(at)
          : static_cast<float*>(state.ParameterAt(piece.offset, policy_->parts_.dtype));
  policy_->parts_.UpdatePiece(piece, policy_->step_, elements, master, state.OptimizerAt(at),
                              elements);
}

}  // namespace rz
