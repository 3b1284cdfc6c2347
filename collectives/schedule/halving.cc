// Rank r of N keeps partial sums by distance: sum i is of block r + i (modulo N), at first the own
// input. With s' = N, then s = ceil(s' / 2) until s = 1:
//   1. Send the sums s .. s' - 1 to rank r + s, whose distances 0 .. s' - s - 1 they are.
//   2. Receive as many from rank r - s and add them to the own sums 0 .. s' - s - 1.
// Sum i of rank r gets its addends from ranks that stand ever further before r; after the last step
// sum 0 is of block r and of all ranks.
//
// Sums are copied into slots only where a run must be one stretch of memory: those the first step
// sends, and the middle one that it neither sends nor adds to where N is odd.
#include "collectives/schedule/halving.h"

#include <utility>
#include <vector>

#include "collectives/schedule/rank_arithmetic.h"

namespace rz {
namespace {

// Where sum i of a rank stands, and whether it is still an input; the same on all ranks.
struct Sum {
  BlockRef ref;
  bool is_input = true;
};

LocalStep Copy(int32_t block, BlockRef dst, BlockRef a) {
  return {LocalKind::kCopy, block, dst, a, {}};
}

}  // namespace

Schedule HalvingReduceScatter(int32_t rank, int32_t world) {
  Schedule schedule;
  if (world == 1) {
    schedule.rounds.push_back({{}, {{LocalKind::kFinish, 0, Output(0), Input(0), {}}}});
    return schedule;
  }
  const auto block_at = [&](int32_t i) { return RankAt(rank, i, world); };
  std::vector<Sum> sums(world);
  for (int32_t i = 0; i < world; ++i) sums[i].ref = Input(block_at(i));

  const int32_t half = world - world / 2;
  const int32_t received = world / 2;  // slots: `received` for arriving sums, then one a sum
  schedule.wire_slots = received + (received > 1 ? world : half);
  const auto slot = [&](int32_t i) { return Scratch(received + i); };
  if (received > 1) {
    Round gather;
    for (int32_t i = half; i < world; ++i) {
      gather.local.push_back(Copy(block_at(i), slot(i), sums[i].ref));
      sums[i].ref = slot(i);
    }
    schedule.rounds.push_back(std::move(gather));
  }

  int32_t end = world;
  for (int32_t begin = half; end > 1; end = begin, begin = end - end / 2) {
    const int32_t count = end - begin;
    Round round;
    round.transfers.push_back({TransferKind::kRecv, block_at(-begin), rank, Scratch(0), count});
    round.transfers.push_back(
        {TransferKind::kSend, block_at(begin), block_at(begin), sums[begin].ref, count});
    for (int32_t i = 0; i < count; ++i) {
      const bool last = begin == 1;
      const BlockRef dst = last ? Output(rank) : slot(i);
      round.local.push_back({last ? LocalKind::kReduceFinish : LocalKind::kReduce, block_at(i), dst,
                             Scratch(i), sums[i].ref, sums[begin + i].is_input, sums[i].is_input});
      sums[i] = {dst, false};
    }
    if (count < begin && begin == half) {
      round.local.push_back(Copy(block_at(count), slot(count), sums[count].ref));
      sums[count].ref = slot(count);
    }
    schedule.rounds.push_back(std::move(round));
  }
  return schedule;
}

ScheduleCost HalvingReduceScatterCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = CeilLog2(world);
  cost.messages = cost.hops;
  cost.wire_blocks = world - 1;
  cost.reduced_blocks = world - 1;
  cost.copied_blocks = world == 1 ? 1 : (world > 3 ? world / 2 : 0) + world % 2;
  return cost;
}

}  // namespace rz
