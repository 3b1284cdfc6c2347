// Limits of the collectives over shared memory, in one place.
#ifndef RINGZERO_COLLECTIVES_SHARED_SHARED_LIMITS_H_
#define RINGZERO_COLLECTIVES_SHARED_SHARED_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "collectives/shared/shared_area.h"

namespace rz {

// Inputs up to this many bytes travel in the line of their call.
inline constexpr size_t kMostBytesInLine = SharedLine::kPayloadBytes;

// Slots and the blocks within them begin at multiples of this.
inline constexpr int64_t kSharedAlignment = 64;

// A reduction that all ranks need is summed by each of them, while it is no more than this that all
// of them read together. Above, each sums its share, and the results are read.
inline constexpr size_t kMostBytesSummedByAll = size_t{64} << 10;

// A call has about this many steps, unless they became smaller than that.
inline constexpr int64_t kStepsOfCall = 4;
inline constexpr int64_t kLeastBytesOfStep = int64_t{16} << 10;

// Outputs of so many bytes are written past the caches; sooner it costs up to three times as much.
inline constexpr size_t kLeastOutputToStream = size_t{16} << 20;
inline constexpr size_t kLeastShardToStream = size_t{8} << 20;

// Calls of fewer bytes go through slots although their buffers are in reach: that takes a flag
// less.
inline constexpr size_t kLeastBytesInPlace = size_t{8} << 10;

// Private buffers of so many bytes, as shares of a slot (256 KiB, unless told otherwise), are
// copied by the system out of their process. Below, its calls cost more than a second copy: one of
// them where there are two ranks, else several; likewise where sums make the pieces of many ranks
// small.
inline constexpr size_t kSlotOverLeastToFetch = 8;
inline constexpr size_t kSlotOverLeastToFetchFromOne = 16;
inline constexpr size_t kLeastSlotsToFetchSums = 4;
inline constexpr int kMostRanksToFetchSums = 9;
// Each call of the system copies so much at most: it cannot be interrupted.
inline constexpr size_t kMostBytesToFetch = size_t{4} << 20;

// Steps a rank offers beyond the one it takes.
inline constexpr int64_t kMostStepsAhead = 1;

// A rank that waits polls so often before the clock is looked at, then spins, then gives its core
// away, then sleeps. Where ranks outnumber cores, whoever is waited for needs the core; where ranks
// of other hosts are waited for, it takes longer than is worth spinning.
inline constexpr int kBriefPolls = 64;
inline constexpr int kBriefPollsWhereCoresAreFew = 2;
inline constexpr int kSpins = 2000;
inline constexpr int kSpinsWhereCoresAreFew = 1;
inline constexpr int kYields = 200;

// A sleeper looks up this often: a doorbell may be lost with a peer.
inline constexpr absl::Duration kLongestSleep = absl::Milliseconds(100);

// Polls in vain of shared memory alone before the transport is looked at.
inline constexpr int kPollsBeforeTransport = 32;

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_SHARED_LIMITS_H_
