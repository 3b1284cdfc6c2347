#include "tools/launch/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

[[noreturn]] void KeepWatch(std::vector<pid_t> groups, int line) {
  // Out of reach of the terminal's signals, and holding nothing open that others wait to see
  // closed.
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const int null = open("/dev/null", O_RDWR);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  dup2(line, STDERR_FILENO + 1);
  close_range(STDERR_FILENO + 2, ~0u, 0);
  line = STDERR_FILENO + 1;

  pid_t group = 0;
  while (true) {
    const ssize_t got = read(line, &group, sizeof(group));
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof(group)) break;
    std::erase(groups, group);
  }
  for (pid_t left : groups) kill(-left, SIGKILL);
  _exit(0);
}

}  // namespace

absl::StatusOr<Guard> Guard::Fork(const std::vector<pid_t>& groups) {
  RZ_ASSIGN_OR_RETURN(Pipe line, Pipe::Create());
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("fork: ", std::strerror(errno)));
  }
  if (pid == 0) {
    line.write.Close();
    KeepWatch(groups, line.read.get());
  }
  return Guard(pid, std::move(line.write));
}

Guard::~Guard() {
  if (line_.get() < 0) return;  // moved from
  line_.Close();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::Forget(pid_t group) {
  // Smaller than what a pipe takes as a whole. A guard that is gone cannot be helped.
  const ssize_t written = write(line_.get(), &group, sizeof(group));
  (void)written;
}

}  // namespace rz
