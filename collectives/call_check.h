// Checks of a collective call's arguments, before any traffic. What is accepted: NCCL's in-place
// forms, no other overlap; null only where there is nothing to read or write.
#ifndef RINGZERO_COLLECTIVES_CALL_CHECK_H_
#define RINGZERO_COLLECTIVES_CALL_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "collectives/algorithm.h"
#include "runtime/base/dtype.h"
#include "runtime/base/types.h"

namespace rz {

struct Call {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;  // of a broadcast: the buffer, like recv
  void* recv = nullptr;
  int64_t count = 0;
  int64_t tile_chunk = 0;
  DType dtype = DType::kFloat32;
  Rank root = Rank(0);
  Rank rank = Rank(0);
  int world = 1;
};

//   InvalidArgument  the message says rank, collective, and what is wrong
absl::Status CheckCall(const Call& call);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_CALL_CHECK_H_
