#include "runtime/base/clock.h"

#include <chrono>

namespace rz {
namespace {

class SteadyClock : public Clock {
 public:
  absl::Duration Now() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

Clock* Clock::Steady() {
  static SteadyClock clock;
  return &clock;
}

absl::Duration ManualClock::Now() const {
  return absl::Nanoseconds(nanoseconds_.load(std::memory_order_acquire));
}

void ManualClock::Advance(absl::Duration step) {
  nanoseconds_.fetch_add(absl::ToInt64Nanoseconds(step), std::memory_order_acq_rel);
}

}  // namespace rz
