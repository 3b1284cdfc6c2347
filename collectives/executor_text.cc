// What the executor says of its operations, to people and to the flight record.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "collectives/executor.h"
#include "collectives/limits.h"

namespace rz {

std::string Executor::DescribeOperation(int64_t number) const {
  const RunningOperation* operation = Find(number);
  return absl::StrCat("operation ", number, operation == nullptr ? "" : " (",
                      operation == nullptr ? "" : operation->plan.Describe(),
                      operation == nullptr ? "" : ")");
}

std::string Executor::DescribeTransfer(const LaneSlot& slot, size_t transfer_index) const {
  const Plan& plan = operations_[slot.operation].plan;
  const Transfer& transfer = plan.schedule->rounds[slot.round].transfers[transfer_index];
  std::string text = ToString(transfer);
  if (IsData(transfer.kind)) {
    absl::StrAppend(&text, " (", slot.transfers[transfer_index].bytes, " bytes)");
  }
  return text;
}

absl::Status Executor::InContext(const LaneSlot& slot, size_t transfer_index,
                                 const absl::Status& status) const {
  const RunningOperation& operation = operations_[slot.operation];
  return absl::Status(status.code(),
                      absl::StrCat(group_.DescribeSelf(), ", ", DescribeOperation(operation.number),
                                   ", lane ", slot.lane, ", round ", slot.round, ", ",
                                   DescribeTransfer(slot, transfer_index), ": ", status.message()));
}

FlightPosition Executor::PositionOf(int64_t number) const {
  FlightPosition position;
  for (const LaneSlot& slot : slots_) {
    if (slot.operation < 0 || operations_[slot.operation].number != number) continue;
    const int32_t lane = static_cast<int32_t>(std::min<int64_t>(slot.lane, INT32_MAX));
    if (position.lane >= 0 && position.lane <= lane) continue;
    position = {lane, static_cast<int32_t>(slot.round), -1};
    const std::vector<Transfer>& transfers =
        operations_[slot.operation].plan.schedule->rounds[slot.round].transfers;
    for (size_t i = 0; i < slot.transfers.size(); ++i) {
      if (!slot.transfers[i].outstanding) continue;
      // What does not come says more than what is not taken.
      if (position.peer < 0 || !IsOutgoing(transfers[i].kind)) position.peer = transfers[i].peer;
      if (!IsOutgoing(transfers[i].kind)) break;
    }
  }
  return position;
}

absl::Status Executor::FunctionFailed(int64_t number) const {
  return absl::AbortedError(absl::StrCat(group_.DescribeSelf(), ", ", DescribeOperation(number),
                                         ": the function of the reduction failed"));
}

std::string Executor::DescribeWait(int64_t number) const {
  for (const LaneSlot& slot : slots_) {
    if (slot.operation < 0 || operations_[slot.operation].number != number) continue;
    const Plan& plan = operations_[slot.operation].plan;
    std::string text = absl::StrCat("lane ", slot.lane, " of ", plan.lane_count(), ", round ",
                                    slot.round, " waits:");
    int named = 0;
    for (size_t i = 0; i < slot.transfers.size() && named < kReportedTransfers; ++i) {
      if (!slot.transfers[i].outstanding) continue;
      absl::StrAppend(&text, named++ == 0 ? " " : ", ", DescribeTransfer(slot, i));
    }
    return text;
  }
  return "its lanes wait for those of earlier operations";
}

}  // namespace rz
