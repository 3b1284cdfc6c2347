// Guard: a small process that outlives the launcher just long enough to kill what it leaves.
//
// The kernel kills the ranks when the launcher dies, but not the processes that the ranks have
// started. The guard knows the process groups and waits at a pipe that breaks with the launcher.
#ifndef RINGZERO_TOOLS_LAUNCH_GUARD_H_
#define RINGZERO_TOOLS_LAUNCH_GUARD_H_

#include <sys/types.h>

#include <vector>

#include "absl/status/statusor.h"
#include "tools/launch/process.h"

namespace rz {

class Guard {
 public:
  // Forks the guard of `groups`. No other thread may exist.
  //   ResourceExhausted  no process or descriptor is left
  static absl::StatusOr<Guard> Fork(const std::vector<pid_t>& groups);

  Guard(Guard&& other) noexcept = default;
  Guard& operator=(Guard&& other) = delete;

  // Ends the guard, which kills the groups it has not been told to forget, and waits for it.
  ~Guard();

  // `group` is gone; its number may be another's from now on.
  void Forget(pid_t group);

 private:
  Guard(pid_t pid, ScopedFd line) : pid_(pid), line_(std::move(line)) {}

  pid_t pid_;
  ScopedFd line_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_LAUNCH_GUARD_H_
