#include "collectives/flight/flight_signal.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "collectives/flight/flight_dump.h"
#include "runtime/base/log.h"
#include "runtime/base/sync.h"

namespace rz {
namespace {

// What the handler may touch.
std::atomic<int> wake_fd{-1};
struct sigaction previous_action;

void OnSignal(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd.load(), &one, sizeof one);
  errno = saved_errno;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
  }
}

// Lives as long as the process: its thread never ends.
class Registry {
 public:
  static Registry& Get() {
    static auto* registry = new Registry;
    return *registry;
  }

  void Add(const FlightSignal* signal) {
    const MutexLock lock(&mutex_);
    if (!listening_) Listen();
    signals_.push_back(signal);
  }

  void Remove(const FlightSignal* signal) {
    const MutexLock lock(&mutex_);
    signals_.erase(std::find(signals_.begin(), signals_.end(), signal));
  }

 private:
  // Where it fails, the process goes on without.
  void Listen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int fd = eventfd(0, EFD_CLOEXEC);
    if (fd < 0) {
      Log(LogLevel::kWarning, "no flight records on SIGUSR2: eventfd: ", std::strerror(errno));
      return;
    }
    listening_ = true;
    wake_fd = fd;
    // Signals are for the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this, fd] { Serve(fd); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = OnSignal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGUSR2, nullptr, &previous_action);
    sigaction(SIGUSR2, &action, nullptr);
  }

  void Serve(int fd) {
    uint64_t count = 0;
    while (read(fd, &count, sizeof count) == sizeof count) {
      const MutexLock lock(&mutex_);
      for (const FlightSignal* signal : signals_) signal->Write();
    }
  }

  Mutex mutex_;
  bool listening_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<const FlightSignal*> signals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

FlightSignal::FlightSignal(std::string directory, std::function<FlightRecord()> record)
    : directory_(std::move(directory)), record_(std::move(record)) {
  Registry::Get().Add(this);
}

FlightSignal::~FlightSignal() { Registry::Get().Remove(this); }

void FlightSignal::Write() const {
  const absl::Status status = WriteFlightRecord(record_(), directory_);
  if (!status.ok()) {
    Log(LogLevel::kWarning, "no flight record: ", absl::string_view(status.message()));
  }
}

}  // namespace rz
