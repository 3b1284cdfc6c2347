// Limits of the collectives, in one place.
#ifndef RINGZERO_COLLECTIVES_LIMITS_H_
#define RINGZERO_COLLECTIVES_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace rz {

// CommunicatorOptions::slice_bytes, at least.
inline constexpr size_t kMinSliceBytes = 64;

// CommunicatorOptions::lanes_in_flight, and the lanes of all operations of a communicator together
// as a multiple of it: what bounds scratch.
inline constexpr int kMaxLanesInFlight = 64;
inline constexpr int kOperationsWithFullLanes = 4;

// CommunicatorOptions::id.
inline constexpr uint32_t kMaxCommunicatorId = 255;

// Broadcasts of more bytes than this many slices go along the chain.
inline constexpr int64_t kChainBroadcastSlices = 8;

// How long a failed communicator waits for its transport to give memory back (transports promise a
// second).
inline constexpr absl::Duration kAbortDrain = absl::Seconds(10);

// Transfers named in the message of a missed deadline.
inline constexpr int kReportedTransfers = 4;

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_LIMITS_H_
