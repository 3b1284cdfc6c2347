// Calls whose buffers are in reach of all that need them, for loads and stores or to be fetched:
// nothing is offered, and a call ends when all ranks have taken all of their steps.
//
// Each rank names the places of its buffers in its line; with all lines here, all come to the same
// way.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "collectives/shared/shared_engine.h"
#include "collectives/shared/shared_limits.h"

namespace rz {

void SharedEngine::NamePlaces(Running& call, size_t largest_input, const void* input,
                              void* output) {
  call.input = call.output = {};
  call.way = SharedWork::Way::kSlots;
  call.decided = largest_input < kLeastBytesInPlace;
  if (call.decided) return;
  if (!regions_->empty()) {
    if (call.work.gives()) call.input = regions_->PlaceOf(input, call.work.input_bytes());
    if (call.work.takes()) call.output = regions_->PlaceOf(output, call.work.output_bytes());
  }
  // What cannot be mapped is copied by the system, where that is less than twice through a slot.
  if (area_->fetches() && SharedWork::MayFetch(call.plan, area_->world(), area_->slot_bytes())) {
    if (!call.input.known() && call.work.gives()) call.input = SharedPlace::Private(input);
    if (!call.output.known() && call.work.takes()) call.output = SharedPlace::Private(output);
  }
  const SharedPlace places[2] = {call.input, call.output};
  exchange_->Attach(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(places), sizeof places));
}

void SharedEngine::Decide(Running& call) {
  call.decided = true;
  using Reach = SharedWork::Reach;
  Reach inputs = Reach::kStore;
  Reach outputs = Reach::kStore;
  const auto reach_of = [](const SharedPlace& place) {
    return place.mapped() ? Reach::kStore : place.known() ? Reach::kFetch : Reach::kNone;
  };
  for (int r = 0; r < area_->world(); ++r) {
    SharedPlace places[2];
    std::memcpy(places, exchange_->PayloadOf(call.number, r), sizeof places);
    if (call.work.Gives(r)) inputs = std::min(inputs, reach_of(places[0]));
    if (call.work.Takes(r)) outputs = std::min(outputs, reach_of(places[1]));
  }
  call.way = SharedWork::WayOf(call.plan.collective, inputs, outputs);
  if (call.way == SharedWork::Way::kSlots) return;
  call.offered = 0;  // what was offered in vain
  if (const int rank = FindPlaces(call); rank != SharedWork::kNone) SetTrouble(call, rank);
}

void SharedEngine::SetTrouble(const Running& call, int failure) {
  const std::string operation = DescribeOperation(call.number);
  if (failure == SharedWork::kFunctionFailed) {
    trouble_ = absl::AbortedError(absl::StrCat("rank ", area_->rank(), ", ", operation,
                                               ": the function of the reduction failed"));
    return;
  }
  trouble_ = absl::UnavailableError(
      absl::StrCat(operation, ": the memory of rank ", failure, " cannot be reached any more"));
}

int SharedEngine::FindPlaces(const Running& call) {
  for (int r = 0; r < area_->world(); ++r) {
    if (r == area_->rank()) continue;
    SharedPlace places[2];
    std::memcpy(places, exchange_->PayloadOf(call.number, r), sizeof places);
    const bool takes_inputs = call.way != SharedWork::Way::kPush;
    const bool needs_outputs = call.way != SharedWork::Way::kTake;
    const auto at = static_cast<size_t>(r);
    inputs_[at] = nullptr;
    outputs_[at] = nullptr;
    processes_[at] = output_processes_[at] = 0;
    if (takes_inputs && call.work.Gives(r) &&
        !FindPlace(r, places[0], inputs_[at], processes_[at])) {
      return r;
    }
    const std::byte* output = nullptr;
    if (needs_outputs && call.work.Takes(r) &&
        !FindPlace(r, places[1], output, output_processes_[at])) {
      return r;
    }
    outputs_[at] = const_cast<std::byte*>(output);
  }
  return SharedWork::kNone;
}

bool SharedEngine::FindPlace(int rank, const SharedPlace& place, const std::byte*& address,
                             int64_t& process) {
  if (place.mapped()) {
    address = regions_->AddressOf(rank, place);
    return address != nullptr;
  }
  // The address is another process's: it is only reckoned with here.
  std::memcpy(&address, &place.offset, sizeof address);
  process = area_->Header(rank).process.value.load(std::memory_order_relaxed);
  return true;
}

int SharedEngine::AdvanceInPlace(Running& call) {
  if (call.taken == call.steps) return 0;
  const int64_t end = call.base + call.steps;
  const bool has_part = call.way != SharedWork::Way::kTake || call.work.takes();
  if (!has_part && call.offered < call.steps) {
    call.offered = call.steps;
    Publish(area_->header().taken, end);
    return 1;
  }
  if (call.offered < call.steps) {
    // A slot is scratch, once nobody needs what earlier calls left there.
    if (!HaveReached(Stage::kTaken, call, call.base)) return 0;
    return StepInPlace(call) ? 1 : 0;
  }
  // Others may be reading this rank's input, or storing into its output.
  if (!HaveReached(Stage::kTaken, call, end)) return 0;
  call.taken = call.steps;
  return 1;
}

bool SharedEngine::StepInPlace(Running& call) {
  const SharedWork::Inputs inputs = {.whole = true,
                                     .of = inputs_,
                                     .processes = processes_,
                                     .scratch = area_->InputSlot(area_->rank(), 0),
                                     .kernel_scratch = kernel_scratch_.data()};
  int failure = SharedWork::kNone;
  switch (call.way) {
    case SharedWork::Way::kTake:
      failure = call.work.Take(call.offered, inputs, {});
      break;
    case SharedWork::Way::kPush:
      call.work.Push(call.offered, outputs_);
      break;
    case SharedWork::Way::kSumAndPush:
      failure = call.work.SumAndPush(call.offered, inputs, outputs_);
      break;
    case SharedWork::Way::kSumAndTake:
      return SumOrTakeInPlace(call, inputs);
    case SharedWork::Way::kSlots:
      break;
  }
  return Stepped(call, failure);
}

// Step k's sums are taken once all ranks have theirs: then nobody needs the input of that step
// either, and it may be what is written.
bool SharedEngine::SumOrTakeInPlace(Running& call, const SharedWork::Inputs& inputs) {
  if (call.summed < call.steps) {
    const int failure = call.work.SumWhole(call.summed, inputs);
    if (failure != SharedWork::kNone) return Stepped(call, failure);
    Publish(area_->header().summed, call.base + ++call.summed);
  }
  if (!HaveReached(Stage::kSummed, call, call.base + call.offered + 1)) {
    return call.summed < call.steps;
  }
  return Stepped(call, call.work.TakeSums(call.offered, outputs_, output_processes_));
}

// One step less to go; or the last one.
bool SharedEngine::Stepped(Running& call, int failure) {
  if (failure != SharedWork::kNone) {
    SetTrouble(call, failure);
    return false;
  }
  if (++call.offered == call.steps) Publish(area_->header().taken, call.base + call.steps);
  return true;
}

}  // namespace rz
