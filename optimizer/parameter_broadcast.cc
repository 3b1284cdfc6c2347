#include "optimizer/parameter_broadcast.h"

#include <utility>

#include "runtime/base/status_macros.h"

namespace rz {

ParameterBroadcast::ParameterBroadcast(Communicator* communicator, const FlatLayout* layout,
                                       const Partition* partition, const ZeroConfig* config,
                                       StagePolicy* policy)
    : communicator_(communicator),
      layout_(layout),
      partition_(partition),
      config_(config),
      policy_(policy),
      votes_(static_cast<size_t>(communicator->world_size())),
      result_(absl::FailedPreconditionError("the parameters have not been initialized")) {
  vote_.plan_hash = PlanHash(*layout, *partition, *config);
  vote_.group_hash = GroupHash(*layout, *config);
}

absl::Status ParameterBroadcast::Start(Initializer initializer) {
  RZ_ASSIGN_OR_RETURN(
      scratch_, Buffer::Allocate(static_cast<size_t>(layout_->largest_parameter()) * sizeof(float),
                                 MemoryTag::kScratch, config_->ledger));
  initializer_ = std::move(initializer);
  parameter_.reset();
  votes_pending_ = true;
  running_ = true;
  return absl::OkStatus();
}

bool ParameterBroadcast::Poll() {
  while (running_ && Advance()) {
  }
  return !running_;
}

bool ParameterBroadcast::Advance() {
  if (operation_) {
    if (!operation_->Poll()) return false;
    if (absl::Status status = DealWithCompleted(); !status.ok()) {
      End(std::move(status));
      return true;
    }
  }
  if (absl::Status status = StartNext(); !status.ok()) End(std::move(status));
  return true;
}

absl::Status ParameterBroadcast::DealWithCompleted() {
  RZ_RETURN_IF_ERROR(operation_->status());
  operation_.reset();
  if (!parameter_) return Decide(votes_, static_cast<size_t>(partition_->world())).status();
  policy_->SetParameters(layout_->range(*parameter_), scratch_.as<float>().data());
  return absl::OkStatus();
}

absl::Status ParameterBroadcast::StartNext() {
  if (votes_pending_) {
    votes_pending_ = false;
    RZ_ASSIGN_OR_RETURN(operation_, communicator_->StartAllGather(
                                        &vote_, votes_.data(),
                                        kVoteWords * communicator_->world_size(), DType::kInt64));
    return absl::OkStatus();
  }
  parameter_ = parameter_ ? *parameter_ + 1 : 0;
  while (*parameter_ < layout_->size() &&
         (layout_->range(*parameter_).count == 0 || layout_->IsTied(*parameter_))) {
    ++*parameter_;
  }
  if (*parameter_ == layout_->size()) {
    End(absl::OkStatus());
    return absl::OkStatus();
  }
  const int64_t count = layout_->range(*parameter_).count;
  if (communicator_->rank() == Rank(0)) {
    initializer_(*parameter_, scratch_.as<float>().first(static_cast<size_t>(count)));
  }
  RZ_ASSIGN_OR_RETURN(
      operation_, communicator_->StartBroadcast(scratch_.data(), count, DType::kFloat32, Rank(0)));
  return absl::OkStatus();
}

void ParameterBroadcast::Abandon() {
  if (!running_) return;
  communicator_->Abort(absl::CancelledError("the optimizer was destroyed during Initialize"));
  while (operation_ && !operation_->Poll()) {
  }
  running_ = false;
}

void ParameterBroadcast::End(absl::Status result) {
  // The other ranks cannot go on with a broadcast that this one has left.
  if (!result.ok()) communicator_->Abort(result);
  running_ = false;
  operation_.reset();
  initializer_ = nullptr;
  scratch_ = Buffer();
  result_ = std::move(result);
}

}  // namespace rz
