#include "tools/launch/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "tools/exit_code.h"

namespace rz {
namespace {

bool ReadExactly(int fd, void* data, size_t size) {
  for (auto* at = static_cast<char*>(data); size > 0;) {
    const ssize_t got = read(fd, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= got;
  }
  return true;
}

bool WriteExactly(int fd, const void* data, size_t size) {
  for (auto* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t put = write(fd, at, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    size -= put;
  }
  return true;
}

// Waits at the gate and takes the environment from it: a size, then NAME=VALUE, each with its zero.
bool TakeEnvironment(int gate) {
  uint32_t size = 0;
  if (!ReadExactly(gate, &size, sizeof(size))) return false;
  std::string block(size, '\0');
  if (!ReadExactly(gate, block.data(), block.size())) return false;
  for (size_t at = 0; at < block.size(); at += std::strlen(&block[at]) + 1) {
    const std::string entry(&block[at]);
    const size_t equals = entry.find('=');
    if (setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1) != 0) {
      return false;
    }
  }
  return true;
}

void UseAs(int fd, int target) {
  // Nothing to read and nobody to write to, rather than the launcher's own.
  if (fd < 0) fd = open("/dev/null", target == 0 ? O_RDONLY : O_WRONLY);
  if (fd >= 0) dup2(fd, target);
}

// What the new process does until it is another program.
[[noreturn]] void BecomeCommand(const std::vector<std::string>& command,
                                const GatedProcess::Streams& streams, pid_t launcher, int gate,
                                int exec_error) {
  setpgid(0, 0);
  // Where the launcher died before this took effect, its death will not be told any more.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != launcher) _exit(kExitCannotRun);
  UseAs(streams.in, STDIN_FILENO);
  UseAs(streams.out, STDOUT_FILENO);
  UseAs(streams.error, STDERR_FILENO);
  if (!TakeEnvironment(gate)) _exit(kExitCannotRun);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  WriteExactly(exec_error, &error, sizeof(error));
  _exit(kExitCannotRun);
}

}  // namespace

void ScopedFd::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::StatusOr<Pipe> Pipe::Create() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  return Pipe{ScopedFd(ends[0]), ScopedFd(ends[1])};
}

std::string FormatWaitStatus(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return absl::StrCat("exit status ", WEXITSTATUS(wait_status));
  const int number = WTERMSIG(wait_status);
  const char* const name = sigdescr_np(number);
  return absl::StrCat("killed by signal ", number, " (", name == nullptr ? "unknown" : name, ")");
}

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? kExitSignal + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

absl::StatusOr<GatedProcess> GatedProcess::Fork(const std::vector<std::string>& command,
                                                const Streams& streams) {
  RZ_ASSIGN_OR_RETURN(Pipe gate, Pipe::Create());
  RZ_ASSIGN_OR_RETURN(Pipe exec_error, Pipe::Create());
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("fork: ", std::strerror(errno)));
  }
  if (pid == 0) {
    gate.write.Close();
    BecomeCommand(command, streams, launcher, gate.read.get(), exec_error.write.get());
  }
  // Done by both sides, for either may be the first to need it.
  setpgid(pid, pid);
  GatedProcess process;
  process.pid_ = pid;
  process.gate_ = std::move(gate.write);
  process.exec_error_ = std::move(exec_error.read);
  return process;
}

void GatedProcess::Release(const std::vector<std::pair<std::string, std::string>>& environment) {
  std::string block;
  for (const auto& [name, value] : environment) {
    absl::StrAppend(&block, name, "=", value);
    block.push_back('\0');
  }
  const auto size = static_cast<uint32_t>(block.size());
  // A process that is gone already is noticed when it is waited for.
  if (WriteExactly(gate_.get(), &size, sizeof(size))) {
    WriteExactly(gate_.get(), block.data(), block.size());
  }
  gate_.Close();
}

int GatedProcess::WaitForExec() {
  int error = 0;
  if (!ReadExactly(exec_error_.get(), &error, sizeof(error))) error = 0;
  exec_error_.Close();
  return error;
}

}  // namespace rz
