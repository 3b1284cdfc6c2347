// Ring algorithms: each rank sends to rank + 1 and receives from rank - 1, N - 1 times. Every byte
// that must move moves once over each link (Patarasuk and Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", 2009).
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_RING_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_RING_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// Block b is summed from rank b + 1 round to rank b, whose own input comes last: the canonical
// order. `partials` says in which format partial sums travel: kAccumulator rounds once, at the end;
// kWire rounds at every hop. Rank r ends with block r in output[r].
Schedule RingReduceScatter(int32_t rank, int32_t world, Format partials);
ScheduleCost RingReduceScatterCost(int32_t world, Format partials);

// Rank r's block is in input[r] (source == kInput, copied to output[r]) or in output[r] already
// (source == kOutput); everybody ends with all blocks in output.
Schedule RingAllGather(int32_t rank, int32_t world, Place source);
ScheduleCost RingAllGatherCost(int32_t world, Place source);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_RING_H_
