#include "optimizer/naive_policy.h"

namespace rz {

absl::StatusOr<Operation> NaivePolicy::StartReduce(const Bucket& bucket) {
  return parts_.AllReduceGradients(bucket);
}

const void* NaivePolicy::ReducedChunk(int64_t tile) const {
  const Range chunk = parts_.partition->Chunk(tile, parts_.communicator->rank());
  return parts_.state->GradientAt(chunk.offset, parts_.dtype);
}

}  // namespace rz
