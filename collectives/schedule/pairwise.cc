// Rank r of N, distances d = 1 .. N-1, kPairwiseWindow of them a round:
//   1. Receive r+d's input of block r into a slot; send the own input of block r-d to r-d.
//   2. When the round's inputs are there, add them to the running sum in order of d.
//   3. After the last distance add the own input and finish.
#include "collectives/schedule/pairwise.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace rz {

Schedule PairwiseReduceScatter(int32_t rank, int32_t world, Format partials) {
  // The first round holds two inputs wherever there are two, so the running sum starts as their sum
  // and never has to be copied out of a slot that the next round receives into.
  static_assert(kPairwiseWindow >= 2);
  Schedule schedule;
  if (world == 1) {
    schedule.rounds.push_back({{}, {{LocalKind::kFinish, 0, Output(0), Input(0), {}}}});
    return schedule;
  }
  const int32_t window = std::min(kPairwiseWindow, world - 1);
  schedule.wire_slots = window;
  const BlockRef sum = Scratch(window);
  (partials == Format::kAccumulator ? schedule.accumulator_slots : schedule.wire_slots) += 1;

  std::optional<BlockRef> partial;
  for (int32_t first = 1; first < world; first += window) {
    const int32_t end = std::min(first + window, world);
    Round round;
    for (int32_t distance = first; distance < end; ++distance) {
      round.transfers.push_back(
          {TransferKind::kRecv, (rank + distance) % world, rank, Scratch(distance - first)});
    }
    for (int32_t distance = first; distance < end; ++distance) {
      const int32_t owner = (rank - distance + world) % world;
      round.transfers.push_back({TransferKind::kSend, owner, owner, Input(owner)});
    }
    for (int32_t distance = first; distance < end; ++distance) {
      const BlockRef slot = Scratch(distance - first);
      if (partial.has_value()) {
        round.local.push_back({LocalKind::kReduce, rank, sum, *partial, slot,
                               /*a_is_input=*/*partial != sum});
        partial = sum;
      } else {
        partial = slot;
      }
    }
    schedule.rounds.push_back(std::move(round));
  }
  schedule.rounds.back().local.push_back({LocalKind::kReduceFinish, rank, Output(rank), *partial,
                                          Input(rank),
                                          /*a_is_input=*/*partial != sum});
  return schedule;
}

ScheduleCost PairwiseReduceScatterCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = (world - 1 + kPairwiseWindow - 1) / kPairwiseWindow;
  cost.messages = world - 1;
  cost.wire_blocks = world - 1;
  cost.reduced_blocks = world - 1;
  cost.copied_blocks = world == 1 ? 1 : 0;
  return cost;
}

}  // namespace rz
