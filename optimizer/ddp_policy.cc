#include "optimizer/ddp_policy.h"

#include <algorithm>

namespace rz {

absl::StatusOr<Operation> DdpPolicy::StartReduce(const Bucket& bucket) {
  return parts_.AllReduceGradients(bucket);
}

const void* DdpPolicy::ReducedChunk(int64_t tile) const {
  const Range chunk = parts_.partition->Chunk(tile, parts_.communicator->rank());
  return parts_.state->GradientAt(chunk.offset, parts_.dtype);
}

void DdpPolicy::Update(const Bucket& bucket, const StepConstants& step) {
  const int64_t at = bucket.flat.offset;
  void* working = parts_.state->ParameterAt(at, parts_.dtype);
  float* master =
      parts_.state->has_master() ? parts_.state->MasterAt(at) : static_cast<float*>(working);
  parts_.kernel.Update(step, parts_.state->GradientAt(at, parts_.dtype), master,
                       parts_.state->OptimizerAt(at), working,
                       static_cast<size_t>(bucket.flat.count));
}

absl::StatusOr<std::optional<Operation>> DdpPolicy::StartGather(const Bucket&) {
  return std::optional<Operation>();
}

void DdpPolicy::SetParameters(Range flat, const float* values) {
  parts_.state->SetParameters(flat, values, parts_.dtype);
  if (parts_.state->has_master())
    std::copy_n(values, flat.count, parts_.state->MasterAt(flat.offset));
}

}  // namespace rz
