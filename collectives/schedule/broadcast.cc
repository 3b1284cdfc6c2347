// Ranks are numbered from the root: v = (rank - root) mod N.
//
// Binomial, distances d = 1, 2, 4, ... < N: v receives from v - d where d is the highest power of
// two not above v, then sends to v + d for every d above it, all in flight together, the largest
// subtree first.
#include "collectives/schedule/broadcast.h"

#include <utility>

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

}  // namespace rz
