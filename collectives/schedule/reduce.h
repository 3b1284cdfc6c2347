// Reduce: all blocks, summed over all ranks, arrive in the outputs of the root.
//
// Deterministic mode needs the canonical order, block b from rank b + 1 round to b, so that the
// bits are those of all_reduce whatever the root: reduce_scatter and gather, or for little data
// direct. The trees move a lane of one block in an order of their own.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_REDUCE_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_REDUCE_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// The canonical sum. `reduce_scatter` is rank's schedule of any algorithm for it; its order and its
// roundings are those of the result. Then the root gathers.
Schedule ReduceScatterGather(int32_t rank, int32_t world, int32_t root, Schedule reduce_scatter);
ScheduleCost ReduceScatterGatherCost(int32_t world, const ScheduleCost& reduce_scatter);

// The canonical sum, for little data: everybody sends its lane to the root, which sums. N - 1 lane
// slots at the root. `partials` is the format of the running sum; kAccumulator rounds once.
Schedule DirectReduce(int32_t rank, int32_t world, int32_t root, Format partials);
ScheduleCost DirectReduceCost(int32_t world);

// A lane of one block up a binomial tree, each input rounded at most ceil(log2 N) times: small
// messages in fast mode.
Schedule BinomialReduce(int32_t rank, int32_t world, int32_t root);
ScheduleCost BinomialReduceCost(int32_t world);

// A lane of one block along the chain of ranks from root + 1 round to the root, the order in which
// it is summed. `partials` is the format in which it travels; kAccumulator rounds once, kWire N - 1
// times. With several lanes every link is busy at once: large messages in fast mode.
Schedule ChainReduce(int32_t rank, int32_t world, int32_t root, Format partials);
ScheduleCost ChainReduceCost(int32_t world, Format partials);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_REDUCE_H_
