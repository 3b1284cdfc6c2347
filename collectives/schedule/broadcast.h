// Broadcast: block 0 of `root` (its input and its output are one buffer) arrives in everybody's
// output[0].
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_BROADCAST_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_BROADCAST_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"

namespace rz {

// Binomial tree: nobody is more than ceil(log2 N) messages away from the root. For small messages,
// where messages are what costs.
Schedule BinomialBroadcast(int32_t rank, int32_t world, int32_t root);

// A chain from root to root - 1. With several lanes every link is busy at once and each rank sends
// the data once: for large messages.
Schedule ChainBroadcast(int32_t rank, int32_t world, int32_t root);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_BROADCAST_H_
