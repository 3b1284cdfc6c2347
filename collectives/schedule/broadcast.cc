// Ranks are numbered from the root: v = (rank - root) mod N.
//
// Binomial, distances d = 1, 2, 4, ... < N: v receives from v - d where d is the highest power of
// two not above v, then sends to v + d for every d above it, all in flight together, the largest
// subtree first.
//
// Scatter and all_gather: DirectScatter, then RingAllGather, without the messages to the root.
#include "collectives/schedule/broadcast.h"

#include <utility>

#include "collectives/schedule/gather.h"
#include "collectives/schedule/rank_arithmetic.h"
#include "collectives/schedule/ring.h"

namespace rz {

Schedule BinomialBroadcast(int32_t rank, int32_t world, int32_t root) {
  Schedule schedule;
  schedule.one_block = true;
  const int32_t position = (rank - root + world) % world;
  const BlockRef block = position == 0 ? Input(0) : Output(0);
  Round receive;
  Round send;
  for (int64_t distance = 1; distance < world; distance *= 2) {
    if (position >= distance && position < 2 * distance) {
      const int32_t parent = static_cast<int32_t>((rank - distance + world) % world);
      receive.transfers.push_back({TransferKind::kRecv, parent, 0, block});
    } else if (position < distance && position + distance < world) {
      const int32_t child = static_cast<int32_t>((rank + distance) % world);
      send.transfers.push_back({TransferKind::kSend, child, 0, block});
    }
  }
  if (!receive.transfers.empty()) schedule.rounds.push_back(std::move(receive));
  if (!send.transfers.empty()) schedule.rounds.push_back(std::move(send));
  return schedule;
}

ScheduleCost BinomialBroadcastCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = FloorLog2(world);
  cost.messages = CeilLog2(world);
  cost.wire_blocks = cost.messages;
  return cost;
}

Schedule ChainBroadcast(int32_t rank, int32_t world, int32_t root) {
  Schedule schedule;
  schedule.one_block = true;
  const int32_t position = (rank - root + world) % world;
  if (position > 0) {
    const int32_t previous = (rank - 1 + world) % world;
    schedule.rounds.push_back({{{TransferKind::kRecv, previous, 0, Output(0)}}, {}});
  }
  if (position < world - 1) {
    const BlockRef block = position == 0 ? Input(0) : Output(0);
    schedule.rounds.push_back({{{TransferKind::kSend, (rank + 1) % world, 0, block}}, {}});
  }
  return schedule;
}

ScheduleCost ChainBroadcastCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = world - 1;
  cost.messages = world > 1 ? 1 : 0;
  cost.wire_blocks = cost.messages;
  return cost;
}

Schedule ScatterAllGatherBroadcast(int32_t rank, int32_t world, int32_t root) {
  Schedule schedule = DirectScatter(rank, world, root);
  Schedule gather = RingAllGather(rank, world, Place::kOutput);
  for (Round& round : gather.rounds) {
    std::erase_if(round.transfers, [&](const Transfer& transfer) {
      const int32_t receiver = transfer.kind == TransferKind::kSend ? transfer.peer : rank;
      return receiver == root;
    });
  }
  schedule.Append(std::move(gather));
  return schedule;
}

ScheduleCost ScatterAllGatherBroadcastCost(int32_t world) {
  ScheduleCost cost;
  // The root waits for nobody, so the rank v after it waits for v messages.
  cost.hops = world - 1;
  cost.messages = 2 * (world - 1);
  cost.wire_blocks = 2 * (world - 1);
  cost.copied_blocks = 1;
  return cost;
}

}  // namespace rz
