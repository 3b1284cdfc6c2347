#include "runtime/rendezvous/wait_notices.h"

#include <utility>

#include "runtime/base/clock.h"

namespace rz {

WaitNotices::WaitNotices(absl::Duration first, Describe describe, Say say)
    : describe_(std::move(describe)),
      say_(std::move(say)),
      thread_([this, first] { Run(first); }) {}

WaitNotices::~WaitNotices() {
  {
    MutexLock lock(&mutex_);
    over_ = true;
    over_changed_.NotifyAll();
  }
  thread_.join();
}

void WaitNotices::Run(absl::Duration first) {
  const Clock& clock = *Clock::Steady();
  const absl::Duration start = clock.Now();
  for (absl::Duration due = first;; due *= 2) {
    {
      MutexLock lock(&mutex_);
      if (over_changed_.WaitFor(&mutex_, start + due - clock.Now(), [this] { return over_; })) {
        return;
      }
    }
    const std::string text = describe_(clock.Now() - start);
    MutexLock lock(&mutex_);
    if (over_) return;
    say_(text);
  }
}

}  // namespace rz
