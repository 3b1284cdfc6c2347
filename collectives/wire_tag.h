// The tags of collectives' lanes and of the control channel; tags.h says what else there is.
//
// The lane's twelve bits in a collective's tag:
//   1 .. 2047   lane 1, 2, ... of an operation, counting round
//   2048 + f    lane 0 of an operation whose call has fingerprint f
// So first lanes of calls that differ never match (two different calls share a fingerprint once in
// 2,048, and never where only kind, dtype or op differ), and a rank that disagrees with another one
// hands it nothing that could be taken for data: an operation cannot complete without its lane 0.
#ifndef RINGZERO_COLLECTIVES_WIRE_TAG_H_
#define RINGZERO_COLLECTIVES_WIRE_TAG_H_

#include <cstdint>

#include "collectives/call_descriptor.h"
#include "runtime/transport/transport.h"

namespace rz {

static_assert(kFingerprints == 2048);

constexpr Tag LaneTag(uint32_t communicator, int64_t operation, int64_t lane,
                      uint32_t fingerprint) {
  const uint64_t field = lane == 0 ? kFingerprints + fingerprint
                                   : 1 + static_cast<uint64_t>(lane - 1) % (kFingerprints - 1);
  return MakeTag(communicator, static_cast<uint64_t>(operation), field);
}

// Descriptors of calls in their order, and the verdict.
constexpr Tag CallTag(uint32_t communicator) { return MakeTag(communicator, 0, 0); }
constexpr Tag VerdictTag(uint32_t communicator) { return MakeTag(communicator, 1, 0); }

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_WIRE_TAG_H_
