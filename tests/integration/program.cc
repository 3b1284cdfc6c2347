#include "tests/integration/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace rz::testing {
namespace {

constexpr int kExecFailed = 127;

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::abort();
}

std::string ReadWhole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads once; closes at the end of the output.
void ReadInto(int* fd, std::string* text) {
  std::array<char, 65536> block;
  const ssize_t count = read(*fd, block.data(), block.size());
  if (count > 0) {
    text->append(block.data(), static_cast<size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    close(*fd);
    *fd = -1;
  }
}

}  // namespace

Program::Program(const std::vector<std::string>& argv, const Environment& environment) {
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) Die("pipe2");
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t test = getpid();
  pid_ = fork();
  if (pid_ < 0) Die("fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != test) _exit(kExecFailed);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execv(arguments[0], arguments.data());
    std::perror(arguments[0]);
    _exit(kExecFailed);
  }
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Program::~Program() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) close(out_);
  if (err_ >= 0) close(err_);
}

bool Program::ReadSome() {
  if (out_ < 0 && err_ < 0) return false;
  std::array<pollfd, 2> ready = {pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) Die("poll");
  if (ready[0].revents != 0) ReadInto(&out_, &result_.out);
  if (ready[1].revents != 0) ReadInto(&err_, &result_.err);
  return true;
}

bool Program::WaitForOutput(std::string_view text) {
  while (result_.out.find(text) == std::string::npos) {
    if (!ReadSome()) return false;
  }
  return true;
}

void Program::Kill(int signal) const { kill(pid_, signal); }

ProgramResult Program::Wait() {
  while (ReadSome()) {
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) Die("waitpid");
  }
  pid_ = -1;
  if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
  return result_;
}

ProgramResult RunProgram(const std::vector<std::string>& argv,
                         const Program::Environment& environment) {
  return Program(argv, environment).Wait();
}

std::vector<std::string> ProcessesWith(const std::string& name, const std::string& value) {
  const std::string wanted = name + "=" + value;
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    // Entries are ended by zeros; a process that has gone meanwhile reads as nothing.
    const std::string environment = std::string(1, '\0') + ReadWhole(entry.path() / "environ");
    if (environment.find(std::string(1, '\0') + wanted + '\0') == std::string::npos) continue;
    std::string command = ReadWhole(entry.path() / "cmdline");
    for (char& c : command) c = c == '\0' ? ' ' : c;
    found.push_back(entry.path().filename().string() + ": " + command);
  }
  return found;
}

}  // namespace rz::testing
