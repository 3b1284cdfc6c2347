#include "collectives/progress_thread.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "collectives/limits.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

struct Registry {
  Mutex mutex;
  std::map<const Transport*, std::weak_ptr<ProgressThread>> of ABSL_GUARDED_BY(mutex);
};

Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

std::shared_ptr<ProgressThread> ProgressThread::Of(Transport* transport) {
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  std::weak_ptr<ProgressThread>& known = registry.of[transport];
  if (std::shared_ptr<ProgressThread> thread = known.lock(); thread != nullptr) return thread;
  auto thread = std::make_shared<ProgressThread>(transport);
  known = thread;
  return thread;
}

ProgressThread::~ProgressThread() {
  if (running()) StopThread();
  if (wake_fd_ >= 0) close(wake_fd_);
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  const auto at = registry.of.find(transport_);
  // A new one may have taken its place.
  if (at != registry.of.end() && at->second.expired()) registry.of.erase(at);
}

const void* ProgressThread::ThisThread() {
  static thread_local const char mark = 0;
  return &mark;
}

absl::Status ProgressThread::Start(ProgressWork* work) {
  if (transport_->EventDescriptor() < 0) {
    return absl::UnimplementedError(
        absl::StrCat("a progress thread sleeps on its transport's events, and this transport shows "
                     "none: ",
                     transport_->Description()));
  }
  if (!running()) RZ_RETURN_IF_ERROR(StartThread());
  const Section inside(this);
  works_.push_back(work);
  return absl::OkStatus();
}

void ProgressThread::Stop(ProgressWork* work) {
  if (!running()) return;
  bool last;
  {
    const Section inside(this);
    const auto at = std::find(works_.begin(), works_.end(), work);
    if (at != works_.end()) works_.erase(at);
    last = works_.empty();
  }
  if (last) StopThread();
}

void ProgressThread::Remove(ProgressWork* work) { std::erase(all_, work); }

int ProgressThread::MoveOthers(const ProgressWork* work) {
  int moved = 0;
  for (ProgressWork* other : all_) {
    if (other != work && other->NeedsPolls()) moved += other->Poll();
  }
  return moved;
}

bool ProgressThread::OthersNeedLooks(const ProgressWork* work) const {
  return std::any_of(all_.begin(), all_.end(), [work](const ProgressWork* other) {
    return other != work && other->NeedsPolls() && !other->ShowsEvents();
  });
}

absl::Status ProgressThread::StartThread() {
  const auto failed = [](const char* what, int error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a progress thread cannot be started: ", what, ": ", std::strerror(error)));
  };
  if (wake_fd_ < 0) wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return failed("eventfd", errno);
  stops_.store(false);
  running_.store(true);
  // Signals are the program's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, &ProgressThread::Main, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) return absl::OkStatus();
  running_.store(false);
  return failed("pthread_create", error);
}

void ProgressThread::StopThread() {
  stops_.store(true);
  Wake();
  pthread_join(thread_, nullptr);
  running_.store(false);
}

void ProgressThread::Wake() {
  if (!running()) return;
  wakes_.fetch_add(1);
  if (!asleep_.load()) return;
  const uint64_t one = 1;
  // A full counter is readable already, which is all that counts.
  [[maybe_unused]] const ssize_t bytes = write(wake_fd_, &one, sizeof one);
}

void ProgressThread::Enter() {
  wanted_.store(true);
  turn_.Lock();
  wanted_.store(false);
  inside_.store(ThisThread(), std::memory_order_relaxed);
}

void ProgressThread::Leave() {
  const bool needs_polls = NeedsPolls();
  inside_.store(nullptr, std::memory_order_relaxed);
  turn_.Unlock();
  if (needs_polls) Wake();
}

bool ProgressThread::NeedsPolls() const {
  return std::any_of(works_.begin(), works_.end(),
                     [](const ProgressWork* work) { return work->NeedsPolls(); });
}

void* ProgressThread::Main(void* self) {
  pthread_setname_np(pthread_self(), "rz_progress");
  static_cast<ProgressThread*>(self)->Run();
  return nullptr;
}

void ProgressThread::Run() {
  while (true) {
    // Wakes first: whoever stops it sets stops_ and then wakes it, and that wake must not be among
    // those it has seen where it has not seen stops_.
    const uint64_t seen = wakes_.load();
    if (stops_.load()) return;
    const Sleep how = TakeTurn();
    if (how == Sleep::kNot) continue;
    asleep_.store(true);
    if (wakes_.load() == seen) SleepAs(how);
    asleep_.store(false);
  }
}

ProgressThread::Sleep ProgressThread::TakeTurn() {
  if (wanted_.load() || !turn_.TryLock()) return Sleep::kUntilWoken;
  inside_.store(ThisThread(), std::memory_order_relaxed);
  int moved = 1;
  while (moved > 0 && !wanted_.load()) {
    moved = 0;
    for (ProgressWork* work : works_) moved += work->Poll();
  }
  Sleep how = Sleep::kUntilWoken;
  for (const ProgressWork* work : works_) {
    if (!work->NeedsPolls()) continue;
    if (!work->ShowsEvents()) how = Sleep::kBriefly;
    if (how == Sleep::kUntilWoken) how = Sleep::kForEvent;
  }
  if (how == Sleep::kForEvent && !wanted_.load() && !transport_->ArmEvent()) how = Sleep::kNot;
  inside_.store(nullptr, std::memory_order_relaxed);
  turn_.Unlock();
  return how;
}

void ProgressThread::SleepAs(Sleep how) {
  pollfd descriptors[2] = {{wake_fd_, POLLIN, 0}, {transport_->EventDescriptor(), POLLIN, 0}};
  const absl::Duration longest = how == Sleep::kBriefly ? kSharedLook : kLongestProgressSleep;
  const timespec timeout = absl::ToTimespec(longest);
  ppoll(descriptors, how == Sleep::kForEvent ? 2 : 1,
        how == Sleep::kUntilWoken ? nullptr : &timeout, nullptr);
  uint64_t count;
  // Nothing to read: it was an event, or time.
  [[maybe_unused]] const ssize_t bytes = read(wake_fd_, &count, sizeof count);
}

}  // namespace rz
