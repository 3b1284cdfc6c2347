#include "collectives/schedule/barrier.h"

#include "collectives/schedule/rank_arithmetic.h"

namespace rz {

Schedule DisseminationBarrier(int32_t rank, int32_t world) {
  Schedule schedule;
  for (int64_t distance = 1; distance < world; distance *= 2) {
    const int32_t to = static_cast<int32_t>((rank + distance) % world);
    const int32_t from = static_cast<int32_t>((rank - distance + world) % world);
    schedule.rounds.push_back(
        {{{TransferKind::kAwait, from, 0, {}}, {TransferKind::kSignal, to, 0, {}}}, {}});
  }
  return schedule;
}

ScheduleCost DisseminationBarrierCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = CeilLog2(world);
  cost.messages = cost.hops;
  return cost;
}

}  // namespace rz
