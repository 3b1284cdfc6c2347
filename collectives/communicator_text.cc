// What a communicator says of its operations, to people and to the flight record.
#include "absl/strings/str_cat.h"
#include "collectives/communicator_impl.h"

namespace rz {

Communicator::Impl::Carrier Communicator::Impl::CarrierOf(int64_t number) const {
  if (shared_ != nullptr && !shared_->engine().AreDone(number, number)) {
    return Carrier::kSharedMemory;
  }
  const bool in_stages = hierarchy_ != nullptr && !hierarchy_->AreDone(number, number);
  return in_stages ? Carrier::kHierarchy : Carrier::kMessages;
}

void Communicator::Impl::RecordPosition(int64_t number) {
  switch (CarrierOf(number)) {
    case Carrier::kMessages:
      return guard_->SetPosition(number, executor_->PositionOf(number));
    case Carrier::kSharedMemory:
      return guard_->SetPosition(number, shared_->engine().PositionOf(number));
    case Carrier::kHierarchy:
      return guard_->SetPosition(number, hierarchy_->PositionOf(number));
  }
}

std::string Communicator::Impl::DescribeWait(int64_t number) const {
  switch (CarrierOf(number)) {
    case Carrier::kSharedMemory:
      return shared_->engine().DescribeWait(number);
    case Carrier::kHierarchy:
      return hierarchy_->DescribeWait(number);
    case Carrier::kMessages:
      break;
  }
  return executor_->IsDone(number) ? "its data is here" : executor_->DescribeWait(number);
}

std::string Communicator::Impl::DescribeOperation(int64_t number) const {
  switch (CarrierOf(number)) {
    case Carrier::kSharedMemory:
      return shared_->engine().DescribeOperation(number);
    case Carrier::kHierarchy:
      return hierarchy_->DescribeOperation(number);
    case Carrier::kMessages:
      break;
  }
  return executor_->DescribeOperation(number);
}

absl::Status Communicator::Impl::DeadlineError(const Operation& operation,
                                               absl::Duration timeout) const {
  std::string what;
  std::string wait;
  if (operation.kind_ == Operation::Kind::kMessage) {
    what = messages_->Describe(operation.first_);
    wait = "the other side has not come";
  } else {
    const int64_t number = FirstRunning(operation.first_, operation.last_);
    what = DescribeOperation(number);
    wait = DescribeWait(number);
    const std::string neighbours = guard_->DescribeNeighbours();
    if (!neighbours.empty()) absl::StrAppend(&wait, "; ", neighbours);
  }
  return absl::DeadlineExceededError(absl::StrCat(
      group_.DescribeSelf(), ", ", what, ": not complete after ", absl::FormatDuration(timeout),
      "; ", wait, ". Look there for the rank that is late"));
}

}  // namespace rz
