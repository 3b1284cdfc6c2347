// 1. Start puts an operation at the end of the list; AdmitLanes gives free slots to the oldest
//    operations that have lanes left.
// 2. A lane posts all transfers of its round. Each completion (OnComplete) counts down; at zero the
//    slot is ready.
// 3. Poll lets the transport deliver completions, then advances the ready slots: local steps, next
//    round. A lane that is through frees its slot for the next one.
// executor_transfers.cc has what a round does, executor_text.cc what is said of all this.
#include "collectives/executor.h"

#include <algorithm>
#include <utility>

#include "collectives/limits.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// Of one round; schedules in which ranks send to all others at once have more.
constexpr size_t kUsualTransfers = 8;

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
  // How many are under way at once is a matter of timing: what they need is there before.
  for (LaneSlot& slot : slots_) {
    free_operations_.push_back(MakeOperation());
    slot.transfers.reserve(kUsualTransfers);
  }
}

int Executor::MakeOperation() {
  operations_.emplace_back();
  // The first v variant in a place that was used before allocates nothing.
  operations_.back().offsets.reserve(static_cast<size_t>(group_.size()) + 1);
  operations_.back().output_offsets.reserve(static_cast<size_t>(group_.size()) + 1);
  return static_cast<int>(operations_.size()) - 1;
}

int Executor::NewOperation() {
  if (free_operations_.empty()) return MakeOperation();
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

bool Executor::NoneRunning(int64_t first, int64_t last) const {
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
      if (!RunLocalSteps(slot)) return OnTrouble(FunctionFailed(operation.number));
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

}  // namespace rz
