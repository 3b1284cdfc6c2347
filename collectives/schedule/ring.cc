// Reduce_scatter, rank r of N, hop t = 0 .. N-2:
//   1. Send the partial sum of block r-1-t to r+1: at t = 0 the own input, later what hop t-1 left.
//   2. Receive the partial sum of block r-2-t from r-1 and add the own input of that block.
//   3. At the last hop that block is r: the own input is the last addend, the result is finished.
// Two slots take turns, one sending while the other receives.
//
// All_gather, hop t: send block r-t to r+1, receive block r-1-t from r-1 in its place.
#include "collectives/schedule/ring.h"

#include <utility>

namespace rz {
namespace {

int32_t Modulo(int32_t value, int32_t world) { return ((value % world) + world) % world; }

}  // namespace

Schedule RingReduceScatter(int32_t rank, int32_t world, Format partials) {
  Schedule schedule;
  if (world == 1) {
    schedule.rounds.push_back({{}, {{LocalKind::kCopy, 0, Output(0), Input(0), {}}}});
    return schedule;
  }
  const bool widened = partials == Format::kAccumulator;
  (widened ? schedule.accumulator_slots : schedule.wire_slots) = 2;
  const int32_t next = Modulo(rank + 1, world);
  const int32_t previous = Modulo(rank - 1, world);

  BlockRef outgoing = Input(previous);
  if (widened) {
    outgoing = Scratch(1);
    schedule.rounds.push_back({{}, {{LocalKind::kWiden, previous, outgoing, Input(previous), {}}}});
  }
  for (int32_t hop = 0; hop < world - 1; ++hop) {
    const int32_t sent = Modulo(rank - 1 - hop, world);
    const int32_t received = Modulo(rank - 2 - hop, world);
    const BlockRef slot = Scratch(hop % 2);
    Round round;
    round.transfers.push_back({TransferKind::kRecv, previous, received, slot});
    round.transfers.push_back({TransferKind::kSend, next, sent, outgoing});
    if (hop == world - 2) {
      round.local.push_back({LocalKind::kReduceFinish, rank, Output(rank), slot, Input(rank)});
    } else {
      round.local.push_back({LocalKind::kReduce, received, slot, slot, Input(received)});
    }
    schedule.rounds.push_back(std::move(round));
    outgoing = slot;
  }
  return schedule;
}

Schedule RingAllGather(int32_t rank, int32_t world, Place source) {
  Schedule schedule;
  const int32_t next = Modulo(rank + 1, world);
  const int32_t previous = Modulo(rank - 1, world);
  for (int32_t hop = 0; hop < world - 1; ++hop) {
    const int32_t sent = Modulo(rank - hop, world);
    const int32_t received = Modulo(rank - 1 - hop, world);
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

}  // namespace rz
