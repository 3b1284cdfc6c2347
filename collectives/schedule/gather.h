// Gather: rank r's input[r] arrives in output[r] of the root. Scatter: input[r] of the root arrives
// in output[r] of rank r.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_GATHER_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_GATHER_H_

#include <cstdint>

#include "collectives/schedule/schedule.h"
#include "collectives/schedule/schedule_cost.h"

namespace rz {

// Transfers of the root that are in flight together, a lane.
inline constexpr int32_t kRootWindow = 16;

// Every rank sends its block to the root, or gets it from there, itself: one message deep, N - 1
// messages at the root. Blocks of any lengths, no scratch.
Schedule DirectGather(int32_t rank, int32_t world, int32_t root);
Schedule DirectScatter(int32_t rank, int32_t world, int32_t root);
ScheduleCost DirectGatherCost(int32_t world);  // also of scatter

// A binomial tree, floor(log2 N) messages deep: blocks of a subtree travel as one run, each as long
// as the longest. For small blocks. Scratch of the root: N blocks.
Schedule BinomialGather(int32_t rank, int32_t world, int32_t root);
Schedule BinomialScatter(int32_t rank, int32_t world, int32_t root);
ScheduleCost BinomialGatherCost(int32_t world);  // also of scatter

// The rounds of DirectGather where rank r's block lies in `own`: what other collectives end with.
void AppendDirectGather(Schedule& schedule, int32_t rank, int32_t world, int32_t root,
                        BlockRef own);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_GATHER_H_
