// A rank as a process: forked early, held at a gate, started when its environment is known.
#ifndef RINGZERO_TOOLS_LAUNCH_PROCESS_H_
#define RINGZERO_TOOLS_LAUNCH_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace rz {

// Owns a file descriptor.
class ScopedFd {
 public:
  ScopedFd() = default;
  explicit ScopedFd(int fd) : fd_(fd) {}
  ScopedFd(ScopedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ScopedFd& operator=(ScopedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~ScopedFd() { Close(); }

  int get() const { return fd_; }
  void Close();

 private:
  int fd_ = -1;
};

struct Pipe {
  ScopedFd read, write;

  // Both ends are closed by exec.
  //   ResourceExhausted  no descriptor is left
  static absl::StatusOr<Pipe> Create();
};

// How a process ended, as wait() encodes it: "exit status 3", "killed by signal 9 (Killed)".
std::string FormatWaitStatus(int wait_status);
// What a shell makes of it: the exit status, or 128 + the signal.
int ExitCodeOf(int wait_status);

// The process is killed when the launcher dies, whatever it dies of, and leads a process group of
// its own. Call everything from the thread that forked: the kernel counts that thread's death.
class GatedProcess {
 public:
  struct Streams {
    int in = -1;  // of the new process, for its descriptors 0, 1, 2; -1: /dev/null
    int out = -1;
    int error = -1;
  };

  // Forks a process that waits to be released. No other thread may exist, for the new process is to
  // run ordinary code before it becomes `program`.
  //   ResourceExhausted  no process or descriptor is left
  static absl::StatusOr<GatedProcess> Fork(const std::vector<std::string>& command,
                                           const Streams& streams);

  pid_t pid() const { return pid_; }

  // Lets it run its command with `environment` added to its own.
  void Release(const std::vector<std::pair<std::string, std::string>>& environment);

  // After Release: waits until the command runs; errno of what kept it from running, 0 if nothing.
  int WaitForExec();

 private:
  GatedProcess() = default;

  pid_t pid_ = -1;
  ScopedFd gate_;
  ScopedFd exec_error_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_LAUNCH_PROCESS_H_
