// FlightRecorder: what a communicator did last, for whoever has to find out why it stands still.
//
// A ring of the last operations, written by the communicator's owner thread without a lock or an
// allocation, and read at any time from any thread. It holds what was called, never what was in a
// buffer.
#ifndef RINGZERO_COLLECTIVES_FLIGHT_FLIGHT_RECORDER_H_
#define RINGZERO_COLLECTIVES_FLIGHT_FLIGHT_RECORDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "collectives/call_descriptor.h"
#include "runtime/base/clock.h"

namespace rz {

enum class FlightState : uint8_t { kStarted, kDone, kFailed };

// "started", "done", "failed".
std::string_view NameOf(FlightState state);

// Where an operation waits: for a message from or to `peer`, in `round` of `lane`.
struct FlightPosition {
  int32_t lane = -1;  // -1: not known
  int32_t round = 0;
  int32_t peer = -1;  // -1: for no rank in particular

  friend bool operator==(const FlightPosition&, const FlightPosition&) = default;
};

struct FlightEntry {
  int64_t number = 0;
  std::string kind;   // "all_reduce", ...
  std::string dtype;  // "" where the call has none
  std::string op;
  std::string algorithm;
  int64_t count = 0;
  int32_t root = -1;
  uint64_t call_hash = 0;  // equal on ranks that made the same call after the same calls
  FlightState state = FlightState::kStarted;
  FlightPosition position;  // where it was last seen waiting
  absl::Time started;
  absl::Time ended;  // InfiniteFuture: not yet
};

struct FlightRecord {
  std::string job;
  int32_t rank = 0;  // in the communicator
  int32_t world_size = 1;
  int32_t job_rank = 0;
  uint32_t communicator = 0;
  std::string reason;  // why it was taken: "SIGUSR2", or the failure
  absl::Time taken;
  int64_t last_number = 0;           // of the last operation called; 0: none
  std::vector<FlightEntry> entries;  // oldest first
};

class FlightRecorder {
 public:
  static constexpr size_t kDefaultCapacity = 2048;

  // Keeps the last `capacity` operations, a power of two. `clock` outlives the recorder.
  FlightRecorder(size_t capacity, const Clock* clock);

  // The owner thread. Numbers count up from 1, one by one.
  void Start(const CallDescriptor& call);
  void End(int64_t number, FlightState state);
  // A rank that was waited for stays on record until the lane is in another round: when everything
  // fails nobody is waited for any more.
  void SetPosition(int64_t number, const FlightPosition& position);

  // Any thread: the entries that are whole, oldest first. An entry that is written meanwhile is
  // left out.
  std::vector<FlightEntry> Entries() const;
  int64_t last_number() const { return last_number_.load(std::memory_order_acquire); }

 private:
  static constexpr size_t kCallWords = sizeof(CallDescriptor) / sizeof(uint64_t);

  // A seqlock: `written` is the operation's number while the rest is whole, 0 while it changes.
  struct Slot {
    std::atomic<int64_t> written{0};
    std::array<std::atomic<uint64_t>, kCallWords> call;
    std::atomic<int64_t> started{0};
    std::atomic<int64_t> ended{0};  // 0: not yet
    std::atomic<uint64_t> position{0};
    std::atomic<FlightState> state{FlightState::kStarted};
  };

  // Ticks of the processor's constant counter where the clock is the machine's own and there is
  // one: reading it costs a third of the clock. Nanoseconds of `clock_` otherwise.
  int64_t Ticks() const;

  Slot& SlotOf(int64_t number) { return slots_[static_cast<size_t>(number) & (capacity_ - 1)]; }
  const Slot& SlotOf(int64_t number) const {
    return slots_[static_cast<size_t>(number) & (capacity_ - 1)];
  }

  const size_t capacity_;
  const Clock* const clock_;
  const bool counts_ticks_;
  // The same moment on three clocks.
  const int64_t first_ticks_;
  const absl::Duration first_steady_;
  const absl::Time first_time_;

  const std::unique_ptr<Slot[]> slots_;
  std::atomic<int64_t> last_number_{0};
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_FLIGHT_FLIGHT_RECORDER_H_
