// All_to_all: rank r's input[j] arrives in output[r] of rank j.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_ALL_TO_ALL_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_ALL_TO_ALL_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// Every block travels once, straight from input to output, kPairwiseWindow of them at a time. Any
// lengths: a transfer has that of its block in the input or the output layout.
Schedule PairwiseAllToAll(int32_t rank, int32_t world);
ScheduleCost PairwiseAllToAllCost(int32_t world);

// Bruck and others (1997), section 3: ceil(log2 N) messages one after another, each block forwarded
// once for every bit of its distance. For small blocks of one length (Schedule::equal_blocks).
Schedule BruckAllToAll(int32_t rank, int32_t world);
ScheduleCost BruckAllToAllCost(int32_t world);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_ALL_TO_ALL_H_
