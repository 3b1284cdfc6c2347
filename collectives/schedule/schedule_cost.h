// What a set of schedules costs, in the units a cost model multiplies: messages one after another,
// blocks on the wire, blocks added. Counted from schedules here; each algorithm states the same in
// closed form beside itself, and a test compares the two.
//
// A block is one of the lane's; where a lane has a single block (Schedule::one_block) it is the
// whole lane. A lane slot counts as all blocks of a lane.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_SCHEDULE_COST_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_SCHEDULE_COST_H_

#include <cstdint>
#include <ostream>

#include "absl/types/span.h"
#include "collectives/schedule/schedule.h"

namespace rz {

// Each figure is that of the rank for which it is largest.
struct ScheduleCost {
  int32_t hops = 0;                // messages of the longest chain in which each waits for the last
  int64_t messages = 0;            // sent or received, the larger
  int64_t wire_blocks = 0;         // sent or received, the larger
  int64_t accumulator_blocks = 0;  // likewise, in the accumulator's format
  int64_t reduced_blocks = 0;      // additions of one block to another
  int64_t copied_blocks = 0;       // copied or widened, also where in place there is nothing to do

  friend bool operator==(const ScheduleCost&, const ScheduleCost&) = default;

  // Of one after the other, if the busiest rank is the same in both.
  friend ScheduleCost operator+(const ScheduleCost& a, const ScheduleCost& b);
};

// schedules[r] is rank r's, and they are right (verifier.h).
ScheduleCost CostOf(absl::Span<const Schedule> schedules);

std::ostream& operator<<(std::ostream& os, const ScheduleCost& cost);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_SCHEDULE_COST_H_
