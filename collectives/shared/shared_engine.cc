// The oldest call alone moves. It is at three places at once: `offered`, `summed` and `taken` count
// its steps through the stages of shared_work.h, and each goes on when the others' counters say
// that what it needs is there:
//
//   Offer k   all have taken step k - kSharedSlots: the slot is free
//   Sum k     those that give have offered k
//   Take k    they have offered it, or where there are sums, all have summed it
//
// Calls that need no slots are in shared_engine_in_place.cc.
#include "collectives/shared/shared_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/shared/shared_limits.h"

namespace rz {

SharedEngine::SharedEngine(SharedArea* area, SharedExchange* exchange, SharedRegions* regions,
                           FinishedCallback on_finished)
    : area_(area),
      exchange_(exchange),
      regions_(regions),
      on_finished_(std::move(on_finished)),
      inputs_(static_cast<size_t>(area->world())),
      results_(static_cast<size_t>(area->world())),
      outputs_(static_cast<size_t>(area->world())),
      processes_(static_cast<size_t>(area->world())),
      output_processes_(static_cast<size_t>(area->world())) {}

void SharedEngine::Start(int64_t number, const Plan& plan, const void* input, void* output,
                         ShardKernel* kernel) {
  const size_t largest_input = SharedWork::LargestInput(plan);
  const bool in_line = largest_input <= kMostBytesInLine && kernel == nullptr;
  // Others wait for the line: what they need not see of the call is done while it travels.
  if (in_line) exchange_->Tell(SharedWork::WholeInput(plan, area_->rank(), input));
  Running& call = running_.Add(number, plan);
  call.sums_by_owner = (kernel != nullptr && plan.collective == Collective::kAllReduce) ||
                       SharedWork::SumsByOwner(plan, area_->world(), area_->slot_bytes());
  call.work.Reset(&call.plan, area_->rank(), area_->world(), call.sums_by_owner,
                  static_cast<const std::byte*>(input), static_cast<std::byte*>(output));
  call.work.UseKernel(kernel);
  if (kernel != nullptr) ReserveForKernel(plan);
  call.in_line = in_line;
  call.offered = call.summed = call.taken = 0;
  call.base = steps_;
  call.steps = in_line ? 0 : plan.lanes.lane_count();
  steps_ += call.steps;
  if (in_line) return;
  NamePlaces(call, largest_input, input, output);
  // What is in reach needs no slot, if that of the others is too.
  if (running_.size() == 1 && !call.input.known() && !call.output.known()) OfferOne(call);
}

void SharedEngine::ReserveForKernel(const Plan& plan) {
  const size_t bytes =
      static_cast<size_t>(plan.lanes.largest_block()) * SizeOf(plan.arithmetic.dtype);
  if (kernel_scratch_.size() >= bytes) return;
  absl::StatusOr<Buffer> scratch = Buffer::Allocate(bytes, MemoryTag::kScratch);
  trouble_.Update(scratch.status());
  if (scratch.ok()) kernel_scratch_ = *std::move(scratch);
}

int SharedEngine::Poll() {
  int moved = 0;
  while (!running_.empty()) {
    Running& call = running_.oldest();
    if (call.in_line) {
      if (!FinishInLine(call)) return moved;
    } else {
      const int steps = Advance(call);
      moved += steps;
      if (call.taken < call.steps) return moved;
    }
    ++moved;
    running_.PopOldest();
    on_finished_(call.number, absl::OkStatus());
  }
  return moved;
}

bool SharedEngine::FinishInLine(Running& call) {
  if (!trouble_.ok()) return false;
  if (exchange_->agreed() < call.number) return exchange_->MayEnd(call.number);
  if (!call.work.takes()) return true;
  for (int r = 0; r < area_->world(); ++r) {
    inputs_[static_cast<size_t>(r)] = exchange_->PayloadOf(call.number, r);
  }
  for (int64_t lane = 0; lane < call.plan.lanes.lane_count(); ++lane) {
    const int failure = call.work.Take(lane, {true, inputs_}, {});
    if (failure == SharedWork::kNone) continue;
    SetTrouble(call, failure);
    return false;
  }
  return true;
}

int SharedEngine::Advance(Running& call) {
  if (!trouble_.ok()) return 0;
  const bool agreed = exchange_->agreed() >= call.number;
  if (!call.decided && agreed) Decide(call);
  if (call.way != SharedWork::Way::kSlots) return AdvanceInPlace(call);
  const bool may_need_no_slot = !call.decided && (call.input.known() || call.output.known());
  int steps = !may_need_no_slot && OfferOne(call) ? 1 : 0;
  // Nothing is read of ranks that make another call.
  if (!agreed) return steps;
  steps += SumOne(call) ? 1 : 0;
  steps += TakeOne(call) ? 1 : 0;
  return steps;
}

bool SharedEngine::OfferOne(Running& call) {
  if (call.offered == call.steps || call.offered > call.taken + kMostStepsAhead) return false;
  const int64_t step = call.base + call.offered;
  if (call.work.gives()) {
    if (!HaveReached(Stage::kTaken, call, step + 1 - kSharedSlots)) return false;
    call.work.Offer(call.offered, area_->InputSlot(area_->rank(), step));
    Publish(area_->header().offered, step + 1);
  }
  ++call.offered;
  return true;
}

bool SharedEngine::SumOne(Running& call) {
  if (!call.sums_by_owner || call.summed == call.offered) return false;
  const int64_t step = call.base + call.summed;
  if (!HaveReached(Stage::kOffered, call, step + 1)) return false;
  for (int r = 0; r < area_->world(); ++r) {
    inputs_[static_cast<size_t>(r)] = area_->InputSlot(r, step);
  }
  const int failure =
      call.work.Sum(call.summed, {false, inputs_}, area_->ResultSlot(area_->rank(), step));
  if (failure != SharedWork::kNone) {
    SetTrouble(call, failure);
    return false;
  }
  Publish(area_->header().summed, step + 1);
  ++call.summed;
  return true;
}

bool SharedEngine::TakeOne(Running& call) {
  const bool sums = call.sums_by_owner;
  if (call.taken == (sums ? call.summed : call.offered)) return false;
  const int64_t step = call.base + call.taken;
  if (call.work.takes()) {
    if (!HaveReached(sums ? Stage::kSummed : Stage::kOffered, call, step + 1)) return false;
    for (int r = 0; r < area_->world(); ++r) {
      inputs_[static_cast<size_t>(r)] = area_->InputSlot(r, step);
      results_[static_cast<size_t>(r)] = area_->ResultSlot(r, step);
    }
    const int failure =
        call.work.Take(call.taken, {.of = inputs_, .kernel_scratch = kernel_scratch_.data()},
                       sums ? absl::MakeConstSpan(results_) : absl::Span<const std::byte* const>());
    if (failure != SharedWork::kNone) {
      SetTrouble(call, failure);
      return false;
    }
  }
  Publish(area_->header().taken, step + 1);
  ++call.taken;
  return true;
}

void SharedEngine::Publish(SharedCounter& counter, int64_t value) {
  counter.value.store(value, std::memory_order_release);
  area_->Notify();
}

const SharedCounter& SharedEngine::CounterOf(const SharedHeader& header, Stage stage) {
  switch (stage) {
    case Stage::kOffered:
      return header.offered;
    case Stage::kSummed:
      return header.summed;
    case Stage::kTaken:
      break;
  }
  return header.taken;
}

int SharedEngine::FirstBehind(Stage stage, const Running& call, int64_t step) const {
  for (int r = 0; r < area_->world(); ++r) {
    if (r == area_->rank() || (stage == Stage::kOffered && !call.work.Gives(r))) continue;
    const SharedCounter& counter = CounterOf(area_->Header(r), stage);
    if (counter.value.load(std::memory_order_acquire) < step) return r;
  }
  return -1;
}

bool SharedEngine::HaveReached(Stage stage, const Running& call, int64_t step) {
  return FirstBehind(stage, call, step) < 0;
}

int SharedEngine::WaitsFor() const {
  if (running_.empty()) return -1;
  const Running& call = running_.oldest();
  int behind = -1;
  const auto look = [&](Stage stage, int64_t step) {
    if (behind < 0) behind = FirstBehind(stage, call, step);
  };
  if (exchange_->agreed() < call.number) return exchange_->FirstLate();
  if (call.in_line) return -1;
  if (call.way != SharedWork::Way::kSlots) {
    if (call.offered == call.steps) look(Stage::kTaken, call.base + call.steps);
    if (call.offered == 0) look(Stage::kTaken, call.base);
    if (call.summed == call.steps) look(Stage::kSummed, call.base + call.offered + 1);
    return behind;
  }
  const int64_t source = call.sums_by_owner ? call.summed : call.offered;
  if (call.taken < source) {
    if (!call.work.takes()) return -1;
    look(call.sums_by_owner ? Stage::kSummed : Stage::kOffered, call.base + call.taken + 1);
  } else if (call.sums_by_owner && call.summed < call.offered) {
    look(Stage::kOffered, call.base + call.summed + 1);
  } else if (call.work.gives()) {
    look(Stage::kTaken, call.base + call.offered + 1 - kSharedSlots);
  }
  return behind;
}

void SharedEngine::Fail(const absl::Status& cause) {
  running_.Fail([&](int64_t number) { on_finished_(number, cause); });
  running_.Clear();
}

FlightPosition SharedEngine::PositionOf(int64_t number) const {
  const Running* const call = running_.Find(number);
  if (call == nullptr) return {};
  const bool front = running_.IsOldest(*call);
  return {static_cast<int32_t>(std::min<int64_t>(call->taken, INT32_MAX)), 0,
          front ? WaitsFor() : -1};
}

std::string SharedEngine::DescribeWait(int64_t number) const {
  const Running* const call = running_.Find(number);
  if (call == nullptr) return "its data is here";
  if (!running_.IsOldest(*call)) {
    return "it waits for earlier operations";
  }
  const int rank = WaitsFor();
  const std::string whom = rank < 0 ? "nobody" : absl::StrCat("rank ", rank);
  if (call->in_line) return absl::StrCat("it waits for ", whom);
  return absl::StrCat("step ", call->taken, " of ", call->steps, " waits for ", whom);
}

std::string SharedEngine::DescribeOperation(int64_t number) const {
  const Running* const call = running_.Find(number);
  return call == nullptr ? absl::StrCat("operation ", number)
                         : absl::StrCat("operation ", number, " (", call->plan.Describe(), ")");
}

}  // namespace rz
