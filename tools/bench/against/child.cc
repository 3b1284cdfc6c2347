#include "tools/bench/against/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "tools/launch/process.h"

namespace rz {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(5);
constexpr absl::Duration kLookAgain = absl::Milliseconds(20);

// In the new process. Does not return.
[[noreturn]] void Become(const std::vector<std::string>& command,
                         const ChildEnvironment& environment, const Pipe& output,
                         const Pipe& error) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(output.write.get(), STDOUT_FILENO);
  dup2(error.write.get(), STDERR_FILENO);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "cannot run %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

// False at the end of `fd`.
bool ReadSome(int fd, std::string* into) {
  char buffer[16384];
  const ssize_t got = read(fd, buffer, sizeof(buffer));
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  into->append(buffer, static_cast<size_t>(got));
  return got > 0;
}

std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return lines.empty() ? "" : lines.back();
}

struct Ending {
  int wait_status = 0;
  bool overdue = false;
};

// Reads both pipes until the process has ended; what a process of its own still holds open is not
// waited for.
Ending WaitFor(pid_t pid, Pipe& output, Pipe& error, absl::Duration timeout, std::string* out,
               std::string* err) {
  const Clock& clock = *Clock::Steady();
  absl::Duration terminate_at = clock.Now() + timeout;
  absl::Duration kill_at = absl::InfiniteDuration();
  Ending ending;
  bool ended = false;
  while (!ended) {
    pollfd waits[] = {{output.read.get(), POLLIN, 0}, {error.read.get(), POLLIN, 0}};
    poll(waits, 2, static_cast<int>(absl::ToInt64Milliseconds(kLookAgain)));
    // Asked first: what it wrote before it ended is there to be read.
    ended = waitpid(pid, &ending.wait_status, WNOHANG) == pid;
    for (const auto& [pipe, into] : {std::pair{&output, out}, {&error, err}}) {
      const size_t before = into->size();
      while (pipe->read.get() >= 0) {
        const size_t size = into->size();
        if (!ReadSome(pipe->read.get(), into)) pipe->read.Close();
        if (into->size() == size || into->size() - before > (1 << 20)) break;
      }
    }
    if (clock.Now() >= terminate_at) {
      ending.overdue = true;
      kill(pid, SIGTERM);
      terminate_at = absl::InfiniteDuration();
      kill_at = clock.Now() + kGrace;
    }
    if (clock.Now() >= kill_at) kill(pid, SIGKILL);
  }
  return ending;
}

}  // namespace

absl::StatusOr<std::string> RunChild(const std::vector<std::string>& command,
                                     const ChildEnvironment& environment, absl::Duration timeout) {
  RZ_ASSIGN_OR_RETURN(Pipe output, Pipe::Create());
  RZ_ASSIGN_OR_RETURN(Pipe error, Pipe::Create());
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::UnavailableError(absl::StrCat("no process: ", std::strerror(errno)));
  }
  if (pid == 0) Become(command, environment, output, error);
  output.write.Close();
  error.write.Close();
  fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  fcntl(error.read.get(), F_SETFL, O_NONBLOCK);
  std::string out, err;
  const Ending ending = WaitFor(pid, output, error, timeout, &out, &err);
  if (ending.overdue) {
    return absl::DeadlineExceededError(
        absl::StrCat(command[0], " did not end within ", absl::FormatDuration(timeout)));
  }
  const int code = ExitCodeOf(ending.wait_status);
  if (code == 0) return out;
  if (code == 127) return absl::UnavailableError(LastLine(err));
  return absl::AbortedError(
      absl::StrCat(command[0], ": ", FormatWaitStatus(ending.wait_status),
                   err.empty() ? "" : absl::StrCat(" (", LastLine(err), ")")));
}

}  // namespace rz
