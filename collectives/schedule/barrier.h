// Barrier: nobody leaves before everybody has come.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_BARRIER_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_BARRIER_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// Dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988):
// in round k signal rank + 2^k and await rank - 2^k. ceil(log2 N) rounds for any N.
Schedule DisseminationBarrier(int32_t rank, int32_t world);
ScheduleCost DisseminationBarrierCost(int32_t world);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_BARRIER_H_
