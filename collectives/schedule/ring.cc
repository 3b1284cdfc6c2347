// Reduce_scatter, rank r of N, hop t = 0 .. N-2:
//   1. Send the partial sum of block r-1-t to r+1: at t = 0 the own input, later what hop t-1 left.
//   2. Receive the partial sum of block r-2-t from r-1 and add the own input of that block.
//   3. At the last hop that block is r: the own input is the last addend, the result is finished.
// Two slots take turns, one sending while the other receives.
//
// All_gather, hop t: send block r-t to r+1, receive block r-1-t from r-1 in its place.
#include "collectives/schedule/ring.h"

#include <utility>

#include "collectives/schedule/rank_arithmetic.h"

namespace rz {
Schedule RingReduceScatter(int32_t rank, int32_t world, Format partials) {
  Schedule schedule;
  if (world == 1) {
    schedule.rounds.push_back({{}, {{LocalKind::kFinish, 0, Output(0), Input(0), {}}}});
    return schedule;
  }
  const bool widened = partials == Format::kAccumulator;
  (widened ? schedule.accumulator_slots : schedule.wire_slots) = 2;
  const int32_t next = RankAt(rank, 1, world);
  const int32_t previous = RankAt(rank, -1, world);

  BlockRef outgoing = Input(previous);
  if (widened) {
    outgoing = Scratch(1);
    schedule.rounds.push_back({{}, {{LocalKind::kWiden, previous, outgoing, Input(previous), {}}}});
  }
  for (int32_t hop = 0; hop < world - 1; ++hop) {
    const int32_t sent = RankAt(rank, -1 - hop, world);
    const int32_t received = RankAt(rank, -2 - hop, world);
    const BlockRef slot = Scratch(hop % 2);
    Round round;
    round.transfers.push_back({TransferKind::kRecv, previous, received, slot});
    round.transfers.push_back({TransferKind::kSend, next, sent, outgoing});
    const bool last = hop == world - 2;
    round.local.push_back({last ? LocalKind::kReduceFinish : LocalKind::kReduce, received,
                           last ? Output(rank) : slot, slot, Input(received),
                           /*a_is_input=*/hop == 0 && !widened});
    schedule.rounds.push_back(std::move(round));
    outgoing = slot;
  }
  return schedule;
}

ScheduleCost RingReduceScatterCost(int32_t world, Format partials) {
  ScheduleCost cost;
  const bool widened = partials == Format::kAccumulator && world > 1;
  cost.hops = world - 1;
  cost.messages = world - 1;
  (widened ? cost.accumulator_blocks : cost.wire_blocks) = world - 1;
  cost.reduced_blocks = world - 1;
  cost.copied_blocks = world == 1 || widened ? 1 : 0;
  return cost;
}

Schedule RingAllGather(int32_t rank, int32_t world, Place source) {
  Schedule schedule;
  const int32_t next = RankAt(rank, 1, world);
  const int32_t previous = RankAt(rank, -1, world);
  for (int32_t hop = 0; hop < world - 1; ++hop) {
    const int32_t sent = RankAt(rank, -hop, world);
    const int32_t received = RankAt(rank, -1 - hop, world);
    Round round;
    round.transfers.push_back({TransferKind::kRecv, previous, received, Output(received)});
    round.transfers.push_back(
        {TransferKind::kSend, next, sent, hop == 0 ? BlockRef{source, rank} : Output(sent)});
    schedule.rounds.push_back(std::move(round));
  }
  if (source == Place::kInput) {
    // With the first hop's transfers done, nothing of the block is in flight any more.
    if (schedule.rounds.empty()) schedule.rounds.emplace_back();
    schedule.rounds.front().local.push_back(
        {LocalKind::kCopy, rank, Output(rank), Input(rank), {}});
  }
  return schedule;
}

ScheduleCost RingAllGatherCost(int32_t world, Place source) {
  ScheduleCost cost;
  cost.hops = world - 1;
  cost.messages = world - 1;
  cost.wire_blocks = world - 1;
  cost.copied_blocks = source == Place::kInput ? 1 : 0;
  return cost;
}

}  // namespace rz
