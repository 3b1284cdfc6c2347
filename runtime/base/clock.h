// Time as an argument: whoever waits or measures is given a Clock, so that tests turn the hands
// themselves and never sleep.
#ifndef RINGZERO_RUNTIME_BASE_CLOCK_H_
#define RINGZERO_RUNTIME_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace rz {

// Monotonic time since an unspecified start. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Duration Now() const = 0;

  // The steady clock of the machine: jumps of the wall clock do not touch it.
  static Clock* Steady();
};

// A clock that stands still until Advance. Thread-safe.
class ManualClock : public Clock {
 public:
  absl::Duration Now() const override;
  void Advance(absl::Duration step);

 private:
  std::atomic<int64_t> nanoseconds_{0};
};

// A point of a Clock's time by which something has to be done; InfiniteFuture never comes.
class Deadline {
 public:
  static Deadline After(const Clock& clock, absl::Duration timeout) {
    return Deadline(clock.Now() + timeout);
  }
  static Deadline InfiniteFuture() { return Deadline(absl::InfiniteDuration()); }

  explicit Deadline(absl::Duration at) : at_(at) {}

  absl::Duration at() const { return at_; }
  bool HasPassed(const Clock& clock) const { return clock.Now() >= at_; }
  absl::Duration Remaining(const Clock& clock) const { return at_ - clock.Now(); }

 private:
  absl::Duration at_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_CLOCK_H_
