#include "optimizer/naive_policy.h"

namespace rz {

absl::StatusOr<std::optional<Operation>> NaivePolicy::StartReduce(const Bucket& bucket,
                                                                  void* gradients) {
  return parts_.AllReduce(bucket, gradients);
}

const void* NaivePolicy::ReducedChunk(int64_t tile) const {
  return parts_.state->GradientAt(ChunkOf(tile).offset, parts_.gradient_dtype);
}

}  // namespace rz
