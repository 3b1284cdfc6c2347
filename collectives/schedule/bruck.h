// Bruck's algorithms: everybody's data at everybody in ceil(log2 N) messages one after another, for
// any N. Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all
// communications in multiport message-passing systems" (1997), section 4.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_BRUCK_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_BRUCK_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// Rank r's block is in input[r] (source == kInput, copied to output[r]) or in output[r] already
// (source == kOutput); everybody ends with all blocks in output. Blocks go to their places at once,
// without scratch or rotation, so that blocks may have any lengths; a run that goes past the last
// block is two messages in flight together. Each rank receives N - 1 blocks, which is the least.
// The other half of recursive halving's all_reduce.
Schedule BruckAllGather(int32_t rank, int32_t world, Place source);
ScheduleCost BruckAllGatherCost(int32_t world, Place source);

// All_reduce of little data: everybody gets everybody's whole lane in N lane slots and sums it,
// each block in the canonical order: the bits of RingReduceScatter, with the hops of a tree.
// `partials` is the format of the running sum; kAccumulator rounds once.
Schedule BruckAllReduce(int32_t rank, int32_t world, Format partials);
ScheduleCost BruckAllReduceCost(int32_t world);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_BRUCK_H_
