#include "optimizer/stage_policy.h"

#include <algorithm>
#include <cmath>

#include "collectives/kernels/convert.h"
#include "optimizer/ddp_policy.h"
#include "optimizer/fused_states_policy.h"
#include "optimizer/kernels/gradient_stats.h"
#include "optimizer/naive_policy.h"
#include "optimizer/sharded_parameters_policy.h"
#include "optimizer/sharded_states_policy.h"

namespace rz {
namespace {

bool IsFiniteAt(const void* elements, int64_t index, DType dtype) {
  if (dtype == DType::kFloat32) return std::isfinite(static_cast<const float*>(elements)[index]);
  const uint16_t bits = static_cast<const uint16_t*>(elements)[index];
  return std::isfinite(dtype == DType::kBFloat16 ? BFloat16ToFloat(bits) : Float16ToFloat(bits));
}

}  // namespace

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

ChunkStats StageParts::InspectChunk(Range flat, const void* gradient) const {
  ChunkStats stats;
  stats.sum_of_squares = SumOfSquares(applied_dtype, gradient, static_cast<size_t>(flat.count));
  // Squares of finite float32 values cannot overflow float64: a sum that is not finite is the cheap
  // sign of an element that is not.
  if (!std::isfinite(stats.sum_of_squares)) {
    stats.AddNonFinite(applied_dtype, gradient, flat.offset, flat.count);
  }
  return stats;
}

void ChunkStats::AddNonFinite(DType dtype, const void* elements, int64_t flat, int64_t count) {
  const int64_t found = CountNonFinite(dtype, elements, static_cast<size_t>(count));
  if (found == 0) return;
  non_finite_count += found;
  int64_t first = 0;
  while (IsFiniteAt(elements, first, dtype)) ++first;
  first_non_finite = std::min(first_non_finite, flat + first);
}

std::unique_ptr<StagePolicy> MakeStagePolicy(const ZeroConfig& config, StageParts parts) {
  switch (config.stage) {
    case ZeroStage::kDdp:
      return std::make_unique<DdpPolicy>(parts);
    case ZeroStage::kNaive:
      return std::make_unique<NaivePolicy>(parts);
    case ZeroStage::kOne:
      if (FusesStep(config, *parts.communicator)) {
        return std::make_unique<FusedStatesPolicy>(parts, config);
      }
      return std::make_unique<ShardedStatesPolicy>(parts);
    case ZeroStage::kTwo:
      return std::make_unique<ShardedStatesPolicy>(parts);
    case ZeroStage::kThree:
      break;
  }
  return std::make_unique<ShardedParametersPolicy>(parts);
}

}  // namespace rz
