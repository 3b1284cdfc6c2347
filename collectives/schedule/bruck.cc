// Rank r of N has the data of ranks r .. r + d - 1 before the step of distance d = 1, 2, 4, ...
// below N (ranks modulo N):
//   1. Send the first m = min(d, N - d) of them to rank r - d.
//   2. Receive as many, of the ranks from r + d on, from rank r + d.
#include "collectives/schedule/bruck.h"

#include <algorithm>
#include <utility>

#include "collectives/schedule/canonical_sum.h"
#include "collectives/schedule/rank_arithmetic.h"

namespace rz {
namespace {

// A run of `count` blocks of the output from `first` on: one message, two where it wraps.
void AppendRuns(std::vector<Transfer>& transfers, TransferKind kind, int32_t peer, int32_t first,
                int32_t count, int32_t world) {
  const int32_t before_end = std::min(count, world - first);
  transfers.push_back({kind, peer, first, Output(first), before_end});
  if (count > before_end) transfers.push_back({kind, peer, 0, Output(0), count - before_end});
}

}  // namespace

Schedule BruckAllGather(int32_t rank, int32_t world, Place source) {
  Schedule schedule;
  schedule.unsliced = world > 3;
  for (int32_t distance = 1; distance < world; distance *= 2) {
    const int32_t count = std::min(distance, world - distance);
    const int32_t from = RankAt(rank, distance, world);
    const int32_t to = RankAt(rank, -distance, world);
    Round round;
    AppendRuns(round.transfers, TransferKind::kRecv, from, from, count, world);
    if (distance == 1) {
      round.transfers.push_back({TransferKind::kSend, to, rank, {source, rank}});
    } else {
      AppendRuns(round.transfers, TransferKind::kSend, to, rank, count, world);
    }
    schedule.rounds.push_back(std::move(round));
  }
  if (source == Place::kInput) {
    // After the first round nothing of the block is in flight.
    if (schedule.rounds.empty()) schedule.rounds.emplace_back();
    schedule.rounds.front().local.push_back(
        {LocalKind::kCopy, rank, Output(rank), Input(rank), {}});
  }
  return schedule;
}

ScheduleCost BruckAllGatherCost(int32_t world, Place source) {
  ScheduleCost cost;
  cost.hops = CeilLog2(world);
  // The last rank sends every run of more than one block in two.
  cost.messages = cost.hops;
  for (int32_t distance = 2; distance < world - 1; distance *= 2) ++cost.messages;
  cost.wire_blocks = world - 1;
  cost.copied_blocks = source == Place::kInput ? 1 : 0;
  return cost;
}

Schedule BruckAllReduce(int32_t rank, int32_t world, Format partials) {
  Schedule schedule;
  if (world == 1) {
    schedule.rounds.push_back({{}, {{LocalKind::kFinish, 0, Output(0), Input(0), {}}}});
    return schedule;
  }
  schedule.lane_slots = world;  // slot i: the lane of rank r + i
  if (world > 2) {
    (partials == Format::kAccumulator ? schedule.accumulator_slots : schedule.wire_slots) = 1;
  }
  schedule.rounds.emplace_back();
  for (int32_t block = 0; block < world; ++block) {
    schedule.rounds.back().local.push_back(
        {LocalKind::kCopy, block, LaneSlot(0), Input(block), {}});
  }
  for (int32_t distance = 1; distance < world; distance *= 2) {
    const int32_t count = std::min(distance, world - distance);
    const int32_t from = RankAt(rank, distance, world);
    const int32_t to = RankAt(rank, -distance, world);
    schedule.rounds.push_back({{{TransferKind::kRecv, from, from, LaneSlot(distance), count},
                                {TransferKind::kSend, to, rank, LaneSlot(0), count}},
                               {}});
  }
  for (int32_t block = 0; block < world; ++block) {
    AppendCanonicalSum(schedule.rounds.back().local, block, world, Scratch(0),
                       [&](int32_t source) { return LaneSlot(RankAt(source, -rank, world)); });
  }
  return schedule;
}

ScheduleCost BruckAllReduceCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = CeilLog2(world);
  cost.messages = cost.hops;
  cost.wire_blocks = int64_t{world} * (world - 1);
  cost.reduced_blocks = int64_t{world} * (world - 1);
  cost.copied_blocks = world;
  return cost;
}

}  // namespace rz
