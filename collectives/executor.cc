// 1. Start puts an operation at the end of the list; AdmitLanes gives free slots to the oldest
//    operations that have lanes left.
// 2. A lane posts all transfers of its round. Each completion (OnComplete) counts down; at zero the
//    slot is ready.
// 3. Poll lets the transport deliver completions, then advances the ready slots: local steps, next
//    round. A lane that is through frees its slot for the next one.
#include "collectives/executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/limits.h"
#include "collectives/wire_tag.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr int kTokenSlotShift = 32;

bool IsData(TransferKind kind) {
  return kind == TransferKind::kSend || kind == TransferKind::kRecv;
}

bool IsOutgoing(TransferKind kind) {
  return kind == TransferKind::kSend || kind == TransferKind::kSignal;
}

uint64_t MakeToken(int slot, size_t transfer) {
  return static_cast<uint64_t>(slot) << kTokenSlotShift | transfer;
}

absl::Status WrongLength(size_t moved, size_t expected) {
  return absl::FailedPreconditionError(
      absl::StrCat("moved ", moved, " bytes where this rank expected ", expected,
                   ": do all ranks call the same operations with the same counts and dtypes?"));
}

}  // namespace

Executor::Executor(Transport* transport, Group group, uint32_t communicator_id, int lanes_in_flight)
    : transport_(transport),
      group_(std::move(group)),
      communicator_id_(communicator_id),
      lanes_in_flight_(lanes_in_flight),
      slots_(static_cast<size_t>(lanes_in_flight) * kOperationsWithFullLanes) {
  ready_.reserve(slots_.size());
  advancing_.reserve(slots_.size());
  order_.reserve(slots_.size());
  free_operations_.reserve(slots_.size());
  awaiting_.reserve(slots_.size() * ControlChannel::kMaxNeighbours);
}

int Executor::NewOperation() {
  if (free_operations_.empty()) {
    operations_.emplace_back();
    return static_cast<int>(operations_.size()) - 1;
  }
  const int index = free_operations_.back();
  free_operations_.pop_back();
  return index;
}

void Executor::Start(int64_t number, const Plan& plan, const void* input, void* output,
                     uint32_t fingerprint) {
  const int index = NewOperation();
  RunningOperation& operation = operations_[index];
  operation.number = number;
  operation.plan = plan;
  const auto keep = [](LaneLayout& layout, std::vector<int64_t>& offsets) {
    offsets.assign(layout.offsets().begin(), layout.offsets().end());
    layout.Rebase(offsets);
  };
  keep(operation.plan.lanes, operation.offsets);
  if (operation.plan.output_lanes) keep(*operation.plan.output_lanes, operation.output_offsets);
  operation.input = const_cast<std::byte*>(static_cast<const std::byte*>(input));
  operation.output = static_cast<std::byte*>(output);
  operation.fingerprint = fingerprint;
  operation.next_lane = 0;
  operation.lanes_done = 0;
  operation.lanes_active = 0;
  order_.push_back(index);
  AdmitLanes();
  Retire();
}

int Executor::Poll() {
  const int completions = transport_->Progress();
  if (abort_requested()) Fail(abort_cause());
  if (!transfer_failure_.ok() && !owner_judges_) Fail(transfer_failure_);
  advancing_.swap(ready_);
  for (int slot : advancing_) AdvanceLane(slot);
  advancing_.clear();
  AdmitLanes();
  Retire();
  return completions;
}

const Executor::RunningOperation* Executor::Find(int64_t number) const {
  const auto at = std::lower_bound(
      order_.begin(), order_.end(), number,
      [this](int index, int64_t wanted) { return operations_[index].number < wanted; });
  if (at == order_.end() || operations_[*at].number != number) return nullptr;
  return &operations_[*at];
}

bool Executor::IsDone(int64_t number) const { return Find(number) == nullptr; }

bool Executor::AreDone(int64_t first, int64_t last) const {
  return std::none_of(order_.begin(), order_.end(), [&](int index) {
    return operations_[index].number >= first && operations_[index].number <= last;
  });
}

int64_t Executor::FirstRunning(int64_t first, int64_t last) const {
  for (int index : order_) {
    const int64_t number = operations_[index].number;
    if (number >= first && number <= last) return number;
  }
  return last;
}

absl::Status Executor::ResultOf(int64_t first, int64_t last) const {
  const bool broken =
      std::any_of(failed_operations_.begin(), failed_operations_.end(),
                  [&](int64_t number) { return number >= first && number <= last; });
  return broken ? failure_ : absl::OkStatus();
}

void Executor::Fail(const absl::Status& cause) {
  if (failed()) return;
  failure_ = cause;
  for (int index : order_) {
    failed_operations_.push_back(operations_[index].number);
    if (on_finished_ != nullptr) on_finished_(operations_[index].number, cause);
  }
  transport_->Abort(cause);
}

void Executor::RequestAbort(const absl::Status& cause) {
  {
    absl::MutexLock lock(&abort_mutex_);
    if (abort_requested_.load(std::memory_order_relaxed)) return;
    abort_cause_ = cause;
    abort_requested_.store(true, std::memory_order_release);
  }
  transport_->Abort(cause);
  transport_->Wake();
}

absl::Status Executor::abort_cause() const {
  if (!abort_requested()) return absl::OkStatus();
  absl::MutexLock lock(&abort_mutex_);
  return abort_cause_;
}

void Executor::Retire() {
  if (failed()) {
    if (pending_ == 0) order_.clear();
    return;
  }
  const auto done = [this](int index) {
    const RunningOperation& operation = operations_[index];
    if (operation.lanes_done < operation.plan.lane_count()) return false;
    if (on_finished_ != nullptr) on_finished_(operation.number, absl::OkStatus());
    free_operations_.push_back(index);
    return true;
  };
  order_.erase(std::remove_if(order_.begin(), order_.end(), done), order_.end());
}

int Executor::FreeSlot() const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].operation < 0) return static_cast<int>(i);
  }
  return -1;
}

void Executor::AdmitLanes() {
  for (int index : order_) {
    while (AdmitLane(index)) {
    }
    // A later operation must not overtake this one's lanes where places are short.
    if (stopped() || FreeSlot() < 0) return;
  }
}

bool Executor::AdmitLane(int index) {
  RunningOperation& operation = operations_[index];
  if (stopped() || operation.next_lane == operation.plan.lane_count() ||
      operation.lanes_active == lanes_in_flight_) {
    return false;
  }
  const int slot_index = FreeSlot();
  if (slot_index < 0) return false;
  if (absl::Status status = PrepareSlot(slots_[slot_index], index); !status.ok()) {
    Fail(status);
    return false;
  }
  ++operation.next_lane;
  ++operation.lanes_active;
  if (absl::Status status = PostRound(slot_index); !status.ok()) {
    OnTrouble(status);
    return false;
  }
  if (slots_[slot_index].pending == 0) AdvanceLane(slot_index);
  return true;
}

absl::Status Executor::PrepareSlot(LaneSlot& slot, int index) {
  const RunningOperation& operation = operations_[index];
  const size_t needed = operation.plan.ScratchBytes();
  if (slot.scratch.size() < needed) {
    RZ_ASSIGN_OR_RETURN(slot.scratch, Buffer::Allocate(needed, MemoryTag::kScratch));
  }
  slot.operation = index;
  slot.lane = operation.next_lane;
  slot.memory = {&operation.plan, operation.plan.At(slot.lane), operation.input, operation.output,
                 slot.scratch.data()};
  slot.round = 0;
  slot.pending = 0;
  slot.has_sent = {};
  slot.has_received = {};
  return absl::OkStatus();
}

void Executor::AdvanceLane(int slot_index) {
  LaneSlot& slot = slots_[slot_index];
  if (stopped()) return;
  RunningOperation& operation = operations_[slot.operation];
  const std::vector<Round>& rounds = operation.plan.schedule->rounds;
  while (slot.pending == 0) {
    if (slot.round < rounds.size()) {
      RunLocalSteps(slot);
      ++slot.round;
    }
    if (slot.round == rounds.size()) {
      ++operation.lanes_done;
      --operation.lanes_active;
      slot.operation = -1;
      return;
    }
    if (absl::Status status = PostRound(slot_index); !status.ok()) {
      OnTrouble(status);
      return;
    }
  }
}

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
  CountPayload(plan.collective, memory.size());
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

void Executor::RunLocalSteps(const LaneSlot& slot) {
  const Plan& plan = operations_[slot.operation].plan;
  const Schedule& schedule = *plan.schedule;
  for (const LocalStep& step : schedule.rounds[slot.round].local) {
    const int64_t count = slot.memory.CountOf(step);
    if (count == 0) continue;
    const auto operand = [&](BlockRef ref, bool is_input = false) {
      return Operand{slot.memory.AddressOf(ref, step.block), schedule.FormatOf(ref), is_input};
    };
    const bool reduces = step.kind == LocalKind::kReduce || step.kind == LocalKind::kReduceFinish;
    RunLocalStep(step.kind, operand(step.dst), operand(step.a, step.a_is_input),
                 reduces ? operand(step.b, step.b_is_input) : Operand{}, static_cast<size_t>(count),
                 plan.arithmetic);
  }
}

void Executor::CountPayload(Collective collective, size_t bytes) {
  counters_.Of(collective) += static_cast<int64_t>(bytes);
}

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
