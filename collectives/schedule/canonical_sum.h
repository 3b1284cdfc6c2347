// The canonical sum of inputs that all lie at one rank.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_CANONICAL_SUM_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_CANONICAL_SUM_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace rz {

// Appends to `steps` those that add block `block` of all ranks, from rank block + 1 round to rank
// block, and leave the result in output[block]. input_of(q) is where rank q's input lies, a wire
// format; `sum` is a slot for the running sum, in the format partial sums are kept in.
void AppendCanonicalSum(std::vector<LocalStep>& steps, int32_t block, int32_t world, BlockRef sum,
                        const std::function<BlockRef(int32_t)>& input_of);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_CANONICAL_SUM_H_
