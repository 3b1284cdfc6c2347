// Broadcast: the input of `root` (its input and its output are one buffer) arrives in everybody's
// output.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_BROADCAST_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_BROADCAST_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// Binomial tree on a lane of one block: nobody is more than floor(log2 N) messages away from the
// root. For small messages, where messages are what costs.
Schedule BinomialBroadcast(int32_t rank, int32_t world, int32_t root);
ScheduleCost BinomialBroadcastCost(int32_t world);

// A chain from root to root - 1 on a lane of one block. With several lanes every link is busy at
// once and each rank sends the data once: for large messages.
Schedule ChainBroadcast(int32_t rank, int32_t world, int32_t root);
ScheduleCost ChainBroadcastCost(int32_t world);

// The root scatters a block to each rank, then a ring gathers them, without what would arrive at
// the root (Barnett, Shuler, van de Geijn, Gupta, Payne and Watts, "Interprocessor collective
// communication library", 1994). No rank receives the data more than once, and the root sends it
// about twice: for messages of too few lanes to fill a chain.
Schedule ScatterAllGatherBroadcast(int32_t rank, int32_t world, int32_t root);
ScheduleCost ScatterAllGatherBroadcastCost(int32_t world);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_BROADCAST_H_
