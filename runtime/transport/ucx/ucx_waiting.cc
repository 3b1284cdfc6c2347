// How a rank waits: it polls UCX briefly, then gives its core away, then sleeps on UCX's event
// descriptor and its own.
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/transport/ucx/ucx_transport_impl.h"

namespace rz {
namespace {

// UcxOptions::spin_iterations, where nobody says otherwise.
constexpr int kSpins = 100;
constexpr int kSpinsWhereCoresAreFew = 1;

// Closes under way need Progress although no descriptor tells.
constexpr absl::Duration kLongestSleepWhileClosing = absl::Milliseconds(1);

void PauseCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

bool UcxTransport::TakeWake() {
  if (!wake_.load(std::memory_order_acquire)) return false;
  wake_.store(false, std::memory_order_relaxed);
  uint64_t count;
  // Nothing to read only says that this wake was read with the one before.
  [[maybe_unused]] const ssize_t bytes = read(wake_fd_, &count, sizeof count);
  return true;
}

bool UcxTransport::HasWork() const {
  return !ready_.empty() || !attention_.empty() || abort_state_ == AbortState::kUnderWay ||
         (abort_state_ == AbortState::kNone && abort_requested_.load(std::memory_order_acquire));
}

bool UcxTransport::ArmEvent() {
  if (HasWork()) return false;
  const bool moving = connected_ && abort_state_ != AbortState::kDone;
  return !moving || ucp_worker_arm(worker_->handle()) == UCS_OK;
}

void UcxTransport::WaitForEvent(Deadline deadline) {
  const bool moving = connected_ && abort_state_ != AbortState::kDone;
  const int spins =
      options_.spin_iterations.value_or(cores_are_few_ ? kSpinsWhereCoresAreFew : kSpins);
  const int turns = spins + options_.yield_iterations;
  for (int i = 0; i < turns; ++i) {
    if (HasWork() || TakeWake()) return;
    if (moving && ucp_worker_progress(worker_->handle()) != 0) return;
    if (i < spins) {
      PauseCore();
    } else {
      if (deadline.HasPassed(*Clock::Steady())) return;
      sched_yield();
    }
  }
  if (HasWork() || TakeWake()) return;
  Sleep(deadline);
}

void UcxTransport::Sleep(Deadline deadline) {
  pollfd descriptors[2] = {{wake_fd_, POLLIN, 0}, {worker_->event_fd(), POLLIN, 0}};
  const bool moving = connected_ && abort_state_ != AbortState::kDone;
  if (moving && ucp_worker_arm(worker_->handle()) != UCS_OK) return;
  absl::Duration remaining = deadline.Remaining(*Clock::Steady());
  if (closes_under_way_ > 0 || has_leftovers_) {
    remaining = std::min(remaining, kLongestSleepWhileClosing);
  }
  const timespec timeout = absl::ToTimespec(std::max(remaining, absl::ZeroDuration()));
  const bool forever = remaining == absl::InfiniteDuration();
  ppoll(descriptors, moving ? 2 : 1, forever ? nullptr : &timeout, nullptr);
  TakeWake();
}

void UcxTransport::Wake() {
  const uint64_t one = 1;
  // A full counter is readable already, which is all that counts.
  [[maybe_unused]] const ssize_t bytes = write(wake_fd_, &one, sizeof one);
  // Last: what TakeWake has seen it can read, and leaves nothing that would end later sleeps.
  wake_.store(true, std::memory_order_release);
}

}  // namespace rz
