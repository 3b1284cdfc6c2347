// Limits of the collectives, in one place.
#ifndef RINGZERO_COLLECTIVES_LIMITS_H_
#define RINGZERO_COLLECTIVES_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace rz {

// CommunicatorOptions::slice_bytes, where nobody says otherwise, at least and at most.
inline constexpr size_t kDefaultSliceBytes = size_t{256} << 10;
inline constexpr size_t kMinSliceBytes = 64;
inline constexpr size_t kMaxSliceBytes = size_t{1} << 30;

// CommunicatorOptions::lanes_in_flight, likewise and at most, and the lanes of all operations of a
// communicator together as a multiple of it: what bounds scratch.
inline constexpr int kDefaultLanesInFlight = 4;
inline constexpr int kMaxLanesInFlight = 64;
inline constexpr int kOperationsWithFullLanes = 4;

// CommunicatorOptions::id.
inline constexpr uint32_t kMaxCommunicatorId = 255;

// What CarriageOf takes for a large call.
inline constexpr int64_t kLargeCallBytes = int64_t{64} << 20;

// Scratch of a lane, as a multiple of slice_bytes: lanes of algorithms that need more slots are cut
// finer. A slice of a hierarchy carries slice_bytes for each rank, and as many at most.
inline constexpr int64_t kScratchSlices = 16;

// Algorithms that cannot be cut into slices carry nothing for which a lane needs more scratch.
inline constexpr int64_t kMaxUnslicedScratch = int64_t{16} << 20;

// Members of a group of calls are packed into one operation up to this many bytes each, and as many
// together. Above, copying costs more than the messages saved.
inline constexpr int64_t kMaxPackedCall = int64_t{16} << 10;
inline constexpr int64_t kMaxPackedTotal = int64_t{256} << 10;

// A schedule's first message to a neighbour travels with the call's descriptor up to this many
// bytes.
inline constexpr size_t kMaxPayloadWithCall = 4032;

// Calls that may be under way before the tables of the control channel grow.
inline constexpr size_t kInitialCallWindow = 8;

// An error of a transfer is mostly the echo of something else: how long the verdict that explains
// it is waited for.
inline constexpr absl::Duration kVerdictWait = absl::Seconds(1);

// How long a verdict is given to come to the other ranks: milliseconds where they move.
inline constexpr absl::Duration kVerdictTellingLimit = absl::Seconds(4);

// Polls in vain before the flight record is told where the oldest operation waits.
inline constexpr int kPollsBeforePosition = 16;

// Operations in a flight record's file, at most.
inline constexpr int kMaxFlightEntries = 1 << 20;

// How long a communicator that ends waits to hear that its neighbours have made its last calls.
inline constexpr absl::Duration kCatchUpWait = absl::Seconds(2);

// Polls without any movement after which a communicator that ends gives up earlier.
inline constexpr int kMostIdlePolls = 1000;

// How long a failed communicator waits for its transport to give memory back (transports promise a
// second).
inline constexpr absl::Duration kAbortDrain = absl::Seconds(10);

// What a progress thread sleeps at most while calls are under way: for what no event tells (a
// deadline, an abort), and for shared memory, where none tells anything.
inline constexpr absl::Duration kLongestProgressSleep = absl::Milliseconds(10);
inline constexpr absl::Duration kSharedLook = absl::Microseconds(50);

// Transfers named in the message of a missed deadline.
inline constexpr int kReportedTransfers = 4;

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_LIMITS_H_
