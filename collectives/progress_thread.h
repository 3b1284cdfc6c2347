// ProgressThread: moves the communicators of one transport while their owner does something else.
//
// A transport and everything over it has one owner at a time. The owner is inside (a Section lives
// on its thread) whenever it calls a communicator; outside of that the thread may be. So the two
// take turns under one lock:
//   1. The owner that leaves with something under way wakes the thread where it sleeps.
//   2. The thread polls until nothing moves or the owner wants in, arms the transport's event, lets
//      go of the lock, and sleeps on that event; with nothing under way on nothing but step 1.
//   3. An owner that comes finds the lock free, or waits for one poll to end. While it is inside
//      the thread sleeps until step 1.
// What shows no event (shared memory) is looked at kSharedLook apart while it is under way.
//
// Without a thread a Section is one load. Threads: Start and Stop by the owner, outside of any
// Section; Wake by any.
//
// With or without a thread it knows all communicators of the transport: whoever waits for one moves
// what the others have under way, since ranks may wait for theirs in another order.
#ifndef RINGZERO_COLLECTIVES_PROGRESS_THREAD_H_
#define RINGZERO_COLLECTIVES_PROGRESS_THREAD_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/sync.h"
#include "runtime/transport/transport.h"

namespace rz {

// What is moved: a communicator. Called within a turn.
class ProgressWork {
 public:
  // Moves what can be moved without waiting; returns how much.
  virtual int Poll() = 0;

  // Something is under way.
  virtual bool NeedsPolls() const = 0;

  // Whatever moves it next shows as an event of the transport.
  virtual bool ShowsEvents() const = 0;

 protected:
  ~ProgressWork() = default;
};

class ProgressThread {
 public:
  // The one of `transport`, which outlives it; there is no thread yet.
  static std::shared_ptr<ProgressThread> Of(Transport* transport);

  explicit ProgressThread(Transport* transport) : transport_(transport) {}
  ~ProgressThread();

  // The thread moves `work` from here on; the first one starts it.
  //   Unimplemented      the transport shows no events to sleep on
  //   ResourceExhausted  the system gives no thread or descriptor
  absl::Status Start(ProgressWork* work);

  // ... no more; the last one ends it. Nothing where it was not started for `work`.
  void Stop(ProgressWork* work);

  // `work` is there, until Remove. By the owner, inside.
  void Add(ProgressWork* work) { all_.push_back(work); }
  void Remove(ProgressWork* work);

  // Moves what is under way in others than `work`; returns how much. By the owner, inside.
  int MoveOthers(const ProgressWork* work);
  // Of these some move without an event of the transport.
  bool OthersNeedLooks(const ProgressWork* work) const;

  bool running() const { return running_.load(std::memory_order_relaxed); }

  // Makes it look. Any thread.
  void Wake();

  // The owner is inside while one lives. May be nested; null: there is nothing to keep out.
  class [[nodiscard]] Section {
   public:
    explicit Section(ProgressThread* thread)
        : thread_(thread != nullptr && thread->running() && !thread->IsInside() ? thread
                                                                                : nullptr) {
      if (thread_ != nullptr) thread_->Enter();
    }
    ~Section() {
      if (thread_ != nullptr) thread_->Leave();
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    ProgressThread* const thread_;
  };

 private:
  // How the thread sleeps.
  enum class Sleep : uint8_t {
    kUntilWoken,  // nothing is under way, or the owner is inside
    kForEvent,
    kBriefly,  // shared memory shows no event
    kNot,
  };

  // This thread is inside.
  bool IsInside() const { return inside_.load(std::memory_order_relaxed) == ThisThread(); }
  static const void* ThisThread();

  void Enter() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void Leave() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  absl::Status StartThread();
  void StopThread();
  static void* Main(void* self);
  void Run();
  // One turn, unless the owner is inside or wants to be.
  Sleep TakeTurn() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void SleepAs(Sleep how);
  bool NeedsPolls() const;

  Transport* const transport_;
  std::atomic<bool> running_{false};

  Mutex turn_;                                // held by who is inside
  std::atomic<const void*> inside_{nullptr};  // which thread that is
  std::atomic<bool> wanted_{false};           // by an owner that waits for its turn
  std::vector<ProgressWork*> works_;          // that the thread moves; changed and read inside
  std::vector<ProgressWork*> all_;            // likewise

  // The thread looks at wakes_ before its turn and again after it has said that it sleeps; who
  // wakes it adds to wakes_ first and then looks whether it sleeps.
  std::atomic<uint64_t> wakes_{0};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stops_{false};
  int wake_fd_ = -1;  // open until the end: Wake may come late
  pthread_t thread_ = {};
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_PROGRESS_THREAD_H_
