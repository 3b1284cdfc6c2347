// Pairwise exchange: every rank sends each owner its input of the owner's block as it is, and the
// owner sums. As many elements travel as in a ring, none of them rounded: with 16-bit elements half
// the bytes of a ring that carries 4-byte partial sums.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_PAIRWISE_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_PAIRWISE_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// Receives that are in flight together, each with its slot of scratch.
inline constexpr int32_t kPairwiseWindow = 4;

// The canonical sum, as RingReduceScatter: block r in output[r] of rank r, added from rank r + 1
// round to r. `partials` is the format of the running sum at the owner; kAccumulator rounds once.
Schedule PairwiseReduceScatter(int32_t rank, int32_t world, Format partials);
ScheduleCost PairwiseReduceScatterCost(int32_t world);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_PAIRWISE_H_
