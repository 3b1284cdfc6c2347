#include "tests/integration/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace rz::testing {
namespace {

constexpr absl::Duration kGenerous = absl::Seconds(120);

struct Ends {
  int read = -1;
  int write = -1;
};

Ends MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  return {ends[0], ends[1]};
}

}  // namespace

std::string ProgramPath(const std::string& label_path) {
  const char* const root = std::getenv("TEST_SRCDIR");
  const char* const workspace = std::getenv("TEST_WORKSPACE");
  if (root == nullptr || workspace == nullptr) return "bazel-bin/" + label_path;
  return std::string(root) + "/" + workspace + "/" + label_path;
}

Subprocess::Subprocess(const std::vector<std::string>& command, const std::string& input,
                       const Environment& environment) {
  const Ends in = MakePipe(), out = MakePipe(), error = MakePipe(), witness = MakePipe();
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  // Made before the fork: another thread may hold the allocator's lock during it.
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
  std::vector<char*> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.push_back(*entry);
  for (std::string& setting : settings) variables.push_back(setting.data());
  variables.push_back(nullptr);

  pid_ = fork();
  if (pid_ == 0) {
    dup2(in.read, STDIN_FILENO);
    dup2(out.write, STDOUT_FILENO);
    dup2(error.write, STDERR_FILENO);
    fcntl(witness.write, F_SETFD, 0);  // goes on to everything it starts
    execve(arguments[0], arguments.data(), variables.data());
    _exit(127);
  }
  for (int fd : {in.read, out.write, error.write, witness.write}) close(fd);
  // Small enough for the pipe to take it whether it is read or not.
  (void)!write(in.write, input.data(), input.size());
  close(in.write);
  witness_ = witness.read;
  threads_.emplace_back([this, fd = out.read] { Gather(fd, &output_); });
  threads_.emplace_back([this, fd = error.read] { Gather(fd, &error_output_); });
}

Subprocess::~Subprocess() {
  if (exit_code_ < 0) {
    kill(pid_, SIGKILL);
    Wait();
  }
  for (std::thread& thread : threads_) thread.join();
  close(witness_);
}

void Subprocess::Gather(int fd, std::string* into) {
  char buffer[4096];
  while (true) {
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    MutexLock lock(&mutex_);
    into->append(buffer, got);
    more_output_.NotifyAll();
  }
  close(fd);
}

bool Subprocess::WaitForOutput(const std::string& text) {
  MutexLock lock(&mutex_);
  return more_output_.WaitFor(&mutex_, kGenerous, [&] {
    return output_.find(text) != std::string::npos || error_output_.find(text) != std::string::npos;
  });
}

int Subprocess::Wait() {
  if (exit_code_ >= 0) return exit_code_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return exit_code_;
}

bool Subprocess::WaitUntilNothingIsLeft() {
  pollfd ended{.fd = witness_, .events = POLLIN, .revents = 0};
  if (poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(kGenerous))) != 1) return false;
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  threads_.clear();
  return true;
}

void Subprocess::Signal(int number) { kill(pid_, number); }

std::string Subprocess::Output() const {
  MutexLock lock(&mutex_);
  return output_;
}

std::string Subprocess::ErrorOutput() const {
  MutexLock lock(&mutex_);
  return error_output_;
}

Ending EndOf(Subprocess& program) {
  Ending ending;
  ending.exit_code = program.Wait();
  EXPECT_TRUE(program.WaitUntilNothingIsLeft());
  ending.out = program.Output();
  ending.err = program.ErrorOutput();
  return ending;
}

}  // namespace rz::testing
