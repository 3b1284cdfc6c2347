// Checks of a collective call's arguments, before any traffic. What is accepted: NCCL's in-place
// forms, no other overlap; null only where there is nothing to read or write.
#ifndef RINGZERO_COLLECTIVES_CALL_CHECK_H_
#define RINGZERO_COLLECTIVES_CALL_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "collectives/call.h"
#include "runtime/base/types.h"

namespace rz {

//   InvalidArgument  the message says rank, collective, and what is wrong
absl::Status CheckCall(const Call& call, Rank rank, int world);

// A point-to-point call's buffer and peer.
absl::Status CheckMessage(const char* what, const void* buffer, int64_t count, DType dtype,
                          Rank peer, Rank rank, int world);

// "all_gather_v of 1000 bfloat16", "reduce of 7 float32 sum to root 2", "barrier".
std::string Describe(const Call& call);

// Elements of what the call is about: count, or the sum of the counts.
int64_t TotalCount(const Call& call);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_CALL_CHECK_H_
