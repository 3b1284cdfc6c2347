// A lane's round: its transfers, the messages that travel with the call's descriptor, completions,
// local steps.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "collectives/executor.h"
#include "collectives/wire_tag.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr int kTokenSlotShift = 32;

uint64_t MakeToken(int slot, size_t transfer) {
  return static_cast<uint64_t>(slot) << kTokenSlotShift | transfer;
}

absl::Status WrongLength(size_t moved, size_t expected) {
  return absl::FailedPreconditionError(
      absl::StrCat("moved ", moved, " bytes where this rank expected ", expected,
                   ": do all ranks call the same operations with the same counts and dtypes?"));
}

}  // namespace

absl::Status Executor::PostRound(int slot_index) {
  LaneSlot& slot = slots_[slot_index];
  const std::vector<Round>& rounds = operations_[slot.operation].plan.schedule->rounds;
  if (slot.round == rounds.size()) return absl::OkStatus();
  const size_t count = rounds[slot.round].transfers.size();
  slot.transfers.assign(count, {});
  for (size_t i = 0; i < count; ++i) {
    if (absl::Status status = PostTransfer(slot_index, i); !status.ok()) {
      return InContext(slot, i, status);
    }
  }
  return absl::OkStatus();
}

absl::Status Executor::PostTransfer(int slot_index, size_t transfer_index) {
  LaneSlot& slot = slots_[slot_index];
  const RunningOperation& operation = operations_[slot.operation];
  const Plan& plan = operation.plan;
  const Transfer& transfer = plan.schedule->rounds[slot.round].transfers[transfer_index];
  absl::Span<std::byte> memory;
  if (IsData(transfer.kind)) {
    memory = slot.memory.BytesOf(transfer);
    if (memory.empty()) return absl::OkStatus();
  }
  TransferState& state = slot.transfers[transfer_index];
  state.bytes = memory.size();
  if (!IsOutgoing(transfer.kind)) {
    RZ_ASSIGN_OR_RETURN(const bool done, ReceiveWithCall(slot, transfer_index, memory));
    if (!done) return PostReceive(slot_index, transfer_index, memory);
    if (state.awaits_call) awaiting_.push_back(slot_index);
    return absl::OkStatus();
  }
  CountPayload(plan.collective, transfer.peer, memory.size());
  if (SendWithCall(slot, transfer, memory)) return absl::OkStatus();
  const Tag tag = LaneTag(communicator_id_, operation.number, slot.lane, operation.fingerprint);
  RZ_RETURN_IF_ERROR(transport_->PostSend(group_.ToTransport(Rank(transfer.peer)), tag, memory,
                                          this, MakeToken(slot_index, transfer_index)));
  state.outstanding = true;
  ++slot.pending;
  ++pending_;
  return absl::OkStatus();
}

absl::Status Executor::PostReceive(int slot_index, size_t transfer_index,
                                   absl::Span<std::byte> memory) {
  LaneSlot& slot = slots_[slot_index];
  const RunningOperation& operation = operations_[slot.operation];
  const Transfer& transfer = operation.plan.schedule->rounds[slot.round].transfers[transfer_index];
  const Tag tag = LaneTag(communicator_id_, operation.number, slot.lane, operation.fingerprint);
  RZ_RETURN_IF_ERROR(transport_->PostRecv(group_.ToTransport(Rank(transfer.peer)), tag, memory,
                                          this, MakeToken(slot_index, transfer_index)));
  slot.transfers[transfer_index].outstanding = true;
  ++slot.pending;
  ++pending_;
  return absl::OkStatus();
}

bool Executor::SendWithCall(LaneSlot& slot, const Transfer& transfer,
                            absl::Span<const std::byte> memory) {
  if (channel_ == nullptr || slot.lane != 0) return false;
  const int neighbour = channel_->NeighbourIndex(Rank(transfer.peer));
  if (neighbour < 0 || slot.has_sent[neighbour]) return false;
  slot.has_sent[neighbour] = true;
  return channel_->AttachPayload(operations_[slot.operation].number, Rank(transfer.peer), memory);
}

absl::StatusOr<bool> Executor::ReceiveWithCall(LaneSlot& slot, size_t transfer_index,
                                               absl::Span<std::byte> memory) {
  if (channel_ == nullptr || slot.lane != 0) return false;
  const RunningOperation& operation = operations_[slot.operation];
  const Rank peer(operation.plan.schedule->rounds[slot.round].transfers[transfer_index].peer);
  const int neighbour = channel_->NeighbourIndex(peer);
  if (neighbour < 0 || slot.has_received[neighbour]) return false;
  slot.has_received[neighbour] = true;
  const auto heard = channel_->HeardFrom(operation.number, peer);
  if (!heard.has_value()) {
    slot.transfers[transfer_index].awaits_call = true;
    slot.transfers[transfer_index].outstanding = true;
    ++slot.pending;
    return true;
  }
  if (!heard->has_payload) return false;
  RZ_RETURN_IF_ERROR(TakePayload(slot, transfer_index, memory, heard->payload));
  return true;
}

absl::Status Executor::TakePayload(LaneSlot& slot, size_t transfer_index,
                                   absl::Span<std::byte> memory,
                                   absl::Span<const std::byte> payload) {
  if (payload.size() != memory.size()) return WrongLength(payload.size(), memory.size());
  if (!payload.empty()) std::memcpy(memory.data(), payload.data(), payload.size());
  const RunningOperation& operation = operations_[slot.operation];
  channel_->TakePayload(
      operation.number,
      Rank(operation.plan.schedule->rounds[slot.round].transfers[transfer_index].peer));
  return absl::OkStatus();
}

void Executor::OnCallHeard(int64_t number, Rank peer) {
  if (stopped()) return;
  for (size_t i = 0; i < awaiting_.size(); ++i) {
    const int slot_index = awaiting_[i];
    LaneSlot& slot = slots_[slot_index];
    const RunningOperation& operation = operations_[slot.operation];
    if (operation.number != number) continue;
    const std::vector<Transfer>& transfers = operation.plan.schedule->rounds[slot.round].transfers;
    for (size_t t = 0; t < transfers.size(); ++t) {
      if (!slot.transfers[t].awaits_call || Rank(transfers[t].peer) != peer) continue;
      awaiting_.erase(awaiting_.begin() + static_cast<ptrdiff_t>(i));
      const absl::Status status = ResolveAwaited(slot_index, t);
      if (!status.ok()) OnTrouble(InContext(slot, t, status));
      return;
    }
  }
}

absl::Status Executor::ResolveAwaited(int slot_index, size_t transfer_index) {
  LaneSlot& slot = slots_[slot_index];
  TransferState& state = slot.transfers[transfer_index];
  const RunningOperation& operation = operations_[slot.operation];
  const Transfer& transfer = operation.plan.schedule->rounds[slot.round].transfers[transfer_index];
  absl::Span<std::byte> memory;
  if (IsData(transfer.kind)) memory = slot.memory.BytesOf(transfer);
  state.awaits_call = false;
  state.outstanding = false;
  --slot.pending;
  const auto heard = channel_->HeardFrom(operation.number, Rank(transfer.peer));
  if (!heard->has_payload) return PostReceive(slot_index, transfer_index, memory);
  RZ_RETURN_IF_ERROR(TakePayload(slot, transfer_index, memory, heard->payload));
  if (slot.pending == 0) ready_.push_back(slot_index);
  return absl::OkStatus();
}

void Executor::OnTrouble(const absl::Status& status) {
  if (!owner_judges_) {
    Fail(status);
    return;
  }
  if (transfer_failure_.ok()) transfer_failure_ = status;
  suspended_ = true;
}

void Executor::OnComplete(uint64_t token, const absl::Status& status, size_t bytes) {
  const int slot_index = static_cast<int>(token >> kTokenSlotShift);
  const size_t transfer_index = token & ((uint64_t{1} << kTokenSlotShift) - 1);
  LaneSlot& slot = slots_[slot_index];
  TransferState& transfer = slot.transfers[transfer_index];
  transfer.outstanding = false;
  --slot.pending;
  --pending_;
  if (failed() || !transfer_failure_.ok()) return;
  if (!status.ok() || bytes != transfer.bytes) {
    transfer_failure_ =
        InContext(slot, transfer_index, status.ok() ? WrongLength(bytes, transfer.bytes) : status);
    suspended_ = owner_judges_;
  } else if (slot.pending == 0) {
    ready_.push_back(slot_index);
  }
}

bool Executor::RunLocalSteps(const LaneSlot& slot) {
  const Plan& plan = operations_[slot.operation].plan;
  const Schedule& schedule = *plan.schedule;
  for (const LocalStep& step : schedule.rounds[slot.round].local) {
    const int64_t count = slot.memory.CountOf(step);
    if (count == 0) continue;
    const auto operand = [&](BlockRef ref, bool is_input = false) {
      return Operand{slot.memory.AddressOf(ref, step.block), schedule.FormatOf(ref), is_input};
    };
    const bool reduces = step.kind == LocalKind::kReduce || step.kind == LocalKind::kReduceFinish;
    if (!RunLocalStep(step.kind, operand(step.dst), operand(step.a, step.a_is_input),
                      reduces ? operand(step.b, step.b_is_input) : Operand{},
                      static_cast<size_t>(count), plan.arithmetic)) {
      return false;
    }
  }
  return true;
}

void Executor::CountPayload(Collective collective, int32_t peer, size_t bytes) {
  counters_.Of(collective) += static_cast<int64_t>(bytes);
  if (!elsewhere_.empty() && elsewhere_[static_cast<size_t>(peer)]) {
    counters_.between_hosts += static_cast<int64_t>(bytes);
  }
}

}  // namespace rz
