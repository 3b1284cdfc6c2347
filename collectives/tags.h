// How a communicator uses the transport's tags, {communicator 8, number 22, lane 12}. Lane field 0
// is for what is not part of a schedule: numbers 0 and 1 are left to control messages, the others
// carry point-to-point messages, two tags each, and the last is the tripwire's. Lanes of
// collectives have the fields from 1 on: wire_tag.h. Numbers wrap: what is 2^20 messages apart is
// never in flight together.
#ifndef RINGZERO_COLLECTIVES_TAGS_H_
#define RINGZERO_COLLECTIVES_TAGS_H_

#include <cstdint>

#include "runtime/transport/transport.h"

namespace rz {

// `sequence` counts the messages of the pair.
constexpr Tag MessageTag(uint32_t communicator, uint64_t sequence, bool is_header) {
  return MakeTag(communicator, 2 + 2 * (sequence & 0xfffff) + (is_header ? 0 : 1), 0);
}

// Nobody ever sends to it.
constexpr Tag TripwireTag(uint32_t communicator) { return MakeTag(communicator, 0x3fffff, 0); }

static_assert(MessageTag(0, 0xfffff, false) < TripwireTag(0));
static_assert(MessageTag(0, 0xfffff, false) <= kMaxTag && MessageTag(1, 0, true) != 0);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_TAGS_H_
