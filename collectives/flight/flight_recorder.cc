#include "collectives/flight/flight_recorder.h"

#include <algorithm>
#include <bit>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace rz {
namespace {

#if defined(__x86_64__)
constexpr bool kHasTicks = true;
int64_t ReadTicks() { return static_cast<int64_t>(__rdtsc()); }
#else
constexpr bool kHasTicks = false;
int64_t ReadTicks() { return 0; }
#endif

// A position in one word: {lane + 1 : 32, round : 16, peer + 1 : 16}, so that readers never see
// half of one. What does not fit is cut to the largest that does.
constexpr int kLaneShift = 32;
constexpr int kRoundShift = 16;
constexpr int32_t kFieldMax = 0xffff;

uint64_t Pack(const FlightPosition& position) {
  const auto lane = static_cast<uint32_t>(position.lane) + 1;
  const auto round = static_cast<uint64_t>(std::clamp(position.round, 0, kFieldMax));
  const auto peer = static_cast<uint64_t>(std::clamp(position.peer, -1, kFieldMax - 1) + 1);
  return uint64_t{lane} << kLaneShift | round << kRoundShift | peer;
}

FlightPosition Unpack(uint64_t word) {
  FlightPosition position;
  position.lane = static_cast<int32_t>(static_cast<uint32_t>(word >> kLaneShift) - 1);
  position.round = static_cast<int32_t>(word >> kRoundShift & kFieldMax);
  position.peer = static_cast<int32_t>(word & kFieldMax) - 1;
  return position;
}

std::string NameOrEmpty(uint8_t value, auto make) {
  return value == CallDescriptor::kNotApplicable ? std::string() : std::string(NameOf(make(value)));
}

}  // namespace

std::string_view NameOf(FlightState state) {
  switch (state) {
    case FlightState::kStarted:
      return "started";
    case FlightState::kDone:
      return "done";
    case FlightState::kFailed:
      return "failed";
  }
  return "";
}

FlightRecorder::FlightRecorder(size_t capacity, const Clock* clock)
    : capacity_(capacity),
      clock_(clock),
      counts_ticks_(kHasTicks && clock == Clock::Steady()),
      first_ticks_(Ticks()),
      first_steady_(clock->Now()),
      first_time_(absl::Now()),
      slots_(std::make_unique<Slot[]>(capacity)) {}

int64_t FlightRecorder::Ticks() const {
  return counts_ticks_ ? ReadTicks() : absl::ToInt64Nanoseconds(clock_->Now());
}

void FlightRecorder::Start(const CallDescriptor& call) {
  Slot& slot = SlotOf(call.number);
  slot.written.store(0, std::memory_order_relaxed);
  // Released one by one: a reader that sees a new word sees that the slot is being written.
  const auto words = std::bit_cast<std::array<uint64_t, kCallWords>>(call);
  for (size_t i = 0; i < kCallWords; ++i) slot.call[i].store(words[i], std::memory_order_release);
  slot.started.store(Ticks(), std::memory_order_release);
  slot.ended.store(0, std::memory_order_release);
  slot.position.store(0, std::memory_order_release);
  slot.state.store(FlightState::kStarted, std::memory_order_release);
  slot.written.store(call.number, std::memory_order_release);
  last_number_.store(call.number, std::memory_order_release);
}

void FlightRecorder::End(int64_t number, FlightState state) {
  Slot& slot = SlotOf(number);
  if (slot.written.load(std::memory_order_relaxed) != number) return;
  slot.ended.store(Ticks(), std::memory_order_relaxed);
  slot.state.store(state, std::memory_order_release);
}

void FlightRecorder::SetPosition(int64_t number, const FlightPosition& position) {
  Slot& slot = SlotOf(number);
  if (slot.written.load(std::memory_order_relaxed) != number) return;
  const FlightPosition before = Unpack(slot.position.load(std::memory_order_relaxed));
  const FlightPosition cut = Unpack(Pack(position));
  if (cut.peer < 0 && cut.lane == before.lane && cut.round == before.round) return;
  slot.position.store(Pack(position), std::memory_order_relaxed);
}

std::vector<FlightEntry> FlightRecorder::Entries() const {
  const int64_t ticks = Ticks();
  const absl::Duration elapsed = clock_->Now() - first_steady_;
  const double nanoseconds_per_tick =
      counts_ticks_ && ticks > first_ticks_
          ? absl::ToDoubleNanoseconds(elapsed) / static_cast<double>(ticks - first_ticks_)
          : 1.0;
  const auto time_of = [&](int64_t at) {
    return first_time_ +
           absl::Nanoseconds(static_cast<double>(at - first_ticks_) * nanoseconds_per_tick);
  };
  std::vector<FlightEntry> entries;
  const int64_t last = last_number();
  for (int64_t n = std::max<int64_t>(1, last - static_cast<int64_t>(capacity_) + 1); n <= last;
       ++n) {
    const Slot& slot = SlotOf(n);
    if (slot.written.load(std::memory_order_acquire) != n) continue;
    std::array<uint64_t, kCallWords> words;
    for (size_t i = 0; i < kCallWords; ++i) words[i] = slot.call[i].load(std::memory_order_acquire);
    const FlightState state = slot.state.load(std::memory_order_acquire);
    const int64_t started = slot.started.load(std::memory_order_acquire);
    const int64_t ended = slot.ended.load(std::memory_order_acquire);
    const FlightPosition position = Unpack(slot.position.load(std::memory_order_acquire));
    if (slot.written.load(std::memory_order_acquire) != n) continue;
    const auto call = std::bit_cast<CallDescriptor>(words);
    FlightEntry& entry = entries.emplace_back();
    entry.number = n;
    entry.kind = std::string(NameOf(static_cast<Collective>(call.kind)));
    entry.dtype = NameOrEmpty(call.dtype, [](uint8_t v) { return static_cast<DType>(v); });
    entry.op = NameOrEmpty(call.op, [](uint8_t v) { return static_cast<ReduceOp>(v); });
    entry.algorithm = std::string(NameOf(static_cast<Algorithm>(call.algorithm)));
    entry.count = call.count;
    entry.root = call.root;
    entry.call_hash = HashesOf(call).history_after;
    entry.state = state;
    entry.position = position;
    entry.started = time_of(started);
    entry.ended = ended == 0 ? absl::InfiniteFuture() : time_of(ended);
  }
  return entries;
}

}  // namespace rz
