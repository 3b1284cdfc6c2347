// Mutex, CondVar and Notification on the standard library's. The distribution's Abseil is compiled
// without instrumentation, so the thread sanitizer does not see what absl::Mutex orders and reports
// races where there are none; these it sees, and clang's thread-safety analysis as well.
#ifndef RINGZERO_RUNTIME_BASE_SYNC_H_
#define RINGZERO_RUNTIME_BASE_SYNC_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace rz {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // False: somebody has it.
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(*mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  void NotifyAll() { condition_.notify_all(); }

  // Waits, with `mutex` released meanwhile, until `holds()` or `timeout` (of the steady clock) has
  // passed; returns holds(). InfiniteDuration waits without end, ZeroDuration does not wait.
  template <typename Predicate>
  bool WaitFor(Mutex* mutex, absl::Duration timeout, Predicate holds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    bool held = true;
    // Longer than any program runs, and short enough to be added to a time.
    constexpr absl::Duration kForever = absl::Hours(24 * 365);
    if (timeout > kForever) {
      condition_.wait(lock, holds);
    } else {
      held = condition_.wait_until(
          lock, std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout), holds);
    }
    lock.release();  // the caller's again
    return held;
  }

 private:
  std::condition_variable condition_;
};

// Something that happens once. Thread-safe.
class Notification {
 public:
  void Notify() {
    MutexLock lock(&mutex_);
    happened_ = true;
    condition_.NotifyAll();
  }

  bool HasHappened() const { return WaitFor(absl::ZeroDuration()); }

  // False where it has not happened within `timeout`.
  bool WaitFor(absl::Duration timeout) const {
    MutexLock lock(&mutex_);
    return condition_.WaitFor(&mutex_, timeout, [this] { return happened_; });
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar condition_;
  bool happened_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_SYNC_H_
