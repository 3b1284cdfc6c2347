// Pairwise, rank r of N: at distance d = 1 .. N - 1 send input[r + d] to r + d and receive
// output[r - d] from r - d.
//
// Bruck: item i is the block that travels distance i, from the rank that has it as input to the one
// i after it. For bit b = 1, 2, 4, ... below N:
//   1. Pack the items whose number has the bit, in order, and send them to rank r + b as one run.
//   2. Receive as many from rank r - b; they take the places of those sent.
//   3. Those without a higher bit have arrived: item i goes to output[r - i]. The others wait in a
//      slot, except those that the next step packs, which are read from where they were received.
#include "collectives/schedule/all_to_all.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include "collectives/schedule/pairwise.h"
#include "collectives/schedule/rank_arithmetic.h"

namespace rz {
namespace {

// Items below `world` that have the bit.
std::vector<int32_t> ItemsWith(int32_t bit, int32_t world) {
  std::vector<int32_t> items;
  for (int32_t item = bit; item < world; ++item) {
    if ((item & bit) != 0) items.push_back(item);
  }
  return items;
}

// All blocks are equal: the number of the block says nothing but the length.
LocalStep Copy(BlockRef dst, BlockRef a) { return {LocalKind::kCopy, 0, dst, a, {}}; }

void AppendPacking(std::vector<LocalStep>& steps, const std::vector<int32_t>& items,
                   const std::vector<BlockRef>& places) {
  for (size_t i = 0; i < items.size(); ++i) {
    steps.push_back(Copy(Scratch(static_cast<int32_t>(i)), places[items[i]]));
  }
}

}  // namespace

Schedule PairwiseAllToAll(int32_t rank, int32_t world) {
  Schedule schedule;
  for (int32_t first = 1; first < world; first += kPairwiseWindow) {
    const int32_t end = std::min(first + kPairwiseWindow, world);
    Round round;
    for (int32_t distance = first; distance < end; ++distance) {
      const int32_t from = RankAt(rank, -distance, world);
      round.transfers.push_back({TransferKind::kRecv, from, from, Output(from)});
    }
    for (int32_t distance = first; distance < end; ++distance) {
      const int32_t to = RankAt(rank, distance, world);
      round.transfers.push_back({TransferKind::kSend, to, to, Input(to)});
    }
    schedule.rounds.push_back(std::move(round));
  }
  if (schedule.rounds.empty()) schedule.rounds.emplace_back();
  schedule.rounds.front().local.push_back({LocalKind::kCopy, rank, Output(rank), Input(rank), {}});
  return schedule;
}

ScheduleCost PairwiseAllToAllCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = (world - 1 + kPairwiseWindow - 1) / kPairwiseWindow;
  cost.messages = world - 1;
  cost.wire_blocks = world - 1;
  cost.copied_blocks = 1;
  return cost;
}

Schedule BruckAllToAll(int32_t rank, int32_t world) {
  Schedule schedule;
  schedule.equal_blocks = true;
  schedule.rounds.emplace_back();
  schedule.rounds.back().local.push_back(Copy(Output(rank), Input(rank)));
  if (world == 1) return schedule;

  // Slots: what is sent, what is received, and one an item for those that wait.
  const int32_t most = world / 2;
  schedule.wire_slots = 2 * most + world;
  std::vector<BlockRef> places(world);
  for (int32_t item = 0; item < world; ++item) places[item] = Input(RankAt(rank, item, world));
  for (int32_t bit = 1; bit < world; bit *= 2) {
    const std::vector<int32_t> items = ItemsWith(bit, world);
    const int32_t count = static_cast<int32_t>(items.size());
    AppendPacking(schedule.rounds.back().local, items, places);
    Round round;
    round.transfers.push_back(
        {TransferKind::kRecv, RankAt(rank, -bit, world), 0, Scratch(most), count});
    round.transfers.push_back(
        {TransferKind::kSend, RankAt(rank, bit, world), 0, Scratch(0), count});
    for (int32_t i = 0; i < count; ++i) {
      const int32_t item = items[i];
      const BlockRef received = Scratch(most + i);
      places[item] = received;
      if (item < 2 * bit) {
        round.local.push_back(Copy(Output(RankAt(rank, -item, world)), received));
      } else if ((item & (2 * bit)) == 0) {
        places[item] = Scratch(2 * most + item);
        round.local.push_back(Copy(places[item], received));
      }
    }
    schedule.rounds.push_back(std::move(round));
  }
  return schedule;
}

ScheduleCost BruckAllToAllCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = CeilLog2(world);
  cost.messages = cost.hops;
  cost.copied_blocks = 1;
  for (int32_t item = 1; item < world; ++item) {
    // One bits are where the item is packed and sent, and a one with a zero above it is where it
    // then stands apart: the highest in the output, others in a slot.
    const uint32_t bits = static_cast<uint32_t>(item);
    cost.wire_blocks += std::popcount(bits);
    cost.copied_blocks += std::popcount(bits) + std::popcount(bits & ~(bits >> 1));
  }
  return cost;
}

}  // namespace rz
