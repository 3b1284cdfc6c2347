#include "collectives/schedule/point_to_point.h"

namespace rz {

Schedule SendTo(int32_t peer) {
  Schedule schedule;
  schedule.one_block = true;
  schedule.rounds.push_back({{{TransferKind::kSend, peer, 0, Input(0)}}, {}});
  return schedule;
}

Schedule ReceiveFrom(int32_t peer) {
  Schedule schedule;
  schedule.one_block = true;
  schedule.rounds.push_back({{{TransferKind::kRecv, peer, 0, Output(0)}}, {}});
  return schedule;
}

}  // namespace rz
