// Recursive halving for any number of ranks: reduce_scatter in ceil(log2 N) messages one after
// another, each rank sending N - 1 blocks, which is the least. Träff, "Optimal, non-pipelined
// reduce-scatter and allreduce algorithms" (2024), algorithm 1.
//
// The order of summation differs from block to block and from the canonical one, and partial sums
// travel in the wire's format: each input is rounded at most ceil(log2 N) times. For fast mode.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_HALVING_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_HALVING_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// Rank r ends with block r in output[r]. Its scratch is about 1.5 blocks a rank.
Schedule HalvingReduceScatter(int32_t rank, int32_t world);
ScheduleCost HalvingReduceScatterCost(int32_t world);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_HALVING_H_
