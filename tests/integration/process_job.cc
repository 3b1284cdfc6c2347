// The parent is the broker:
//   1. It makes a socket pair for each rank and forks the ranks.
//   2. Each rank writes a frame with its address; when all are there, each is sent all of them.
//   3. Each rank writes a frame with its text and exits.
// A frame is its length (8 bytes, native order) and its bytes.
#include "tests/integration/process_job.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/transport/ucx/ucx_transport.h"

namespace rz::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(280);

bool WriteFrame(int fd, const std::string& text) {
  const uint64_t size = text.size();
  std::string frame(reinterpret_cast<const char*>(&size), sizeof size);
  frame += text;
  for (size_t at = 0; at < frame.size();) {
    const ssize_t n = send(fd, frame.data() + at, frame.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

std::optional<std::string> ReadExactly(int fd, size_t size, Deadline deadline) {
  std::string text(size, '\0');
  for (size_t at = 0; at < size;) {
    pollfd descriptor = {fd, POLLIN, 0};
    const int64_t left = absl::ToInt64Milliseconds(deadline.Remaining(*Clock::Steady()));
    if (left <= 0) return std::nullopt;
    if (poll(&descriptor, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t n = read(fd, text.data() + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    at += static_cast<size_t>(n);
  }
  return text;
}

std::optional<std::string> ReadFrame(int fd, Deadline deadline) {
  const std::optional<std::string> prefix = ReadExactly(fd, sizeof(uint64_t), deadline);
  if (!prefix.has_value()) return std::nullopt;
  uint64_t size;
  std::memcpy(&size, prefix->data(), sizeof size);
  return ReadExactly(fd, size, deadline);
}

std::string RunRank(int rank, int world, int fd, const UcxOptions& options, const RankBody& body) {
  const Deadline deadline = Deadline::After(*Clock::Steady(), kPatience);
  absl::StatusOr<std::unique_ptr<Transport>> transport = CreateUcxTransport(options);
  if (!transport.ok()) return "failed: " + transport.status().ToString();
  if (!WriteFrame(fd, (*transport)->LocalAddress())) return "failed: the parent is gone";
  std::vector<std::string> addresses;
  for (int r = 0; r < world; ++r) {
    const std::optional<std::string> address = ReadFrame(fd, deadline);
    if (!address.has_value()) return "failed: no addresses";
    addresses.push_back(*address);
  }
  const absl::Status connected = (*transport)->Connect(Rank(rank), addresses, Epoch(1));
  if (!connected.ok()) return "failed: " + connected.ToString();
  return body(transport->get());
}

struct Child {
  pid_t pid = -1;
  int fd = -1;
};

std::vector<Child> ForkAll(int world, const UcxOptions& options, const RankBody& body) {
  std::vector<Child> children;
  for (int rank = 0; rank < world; ++rank) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) break;
    const pid_t pid = fork();
    if (pid == 0) {
      close(fds[0]);
      for (const Child& sibling : children) close(sibling.fd);
      const std::string text = RunRank(rank, world, fds[1], options, body);
      // Not exit: the test framework of the parent has handlers there.
      _exit(WriteFrame(fds[1], text) ? 0 : 1);
    }
    close(fds[1]);
    children.push_back({pid, fds[0]});
  }
  return children;
}

bool Introduce(const std::vector<Child>& children, Deadline deadline) {
  std::vector<std::string> addresses;
  for (const Child& child : children) {
    const std::optional<std::string> address = ReadFrame(child.fd, deadline);
    if (!address.has_value()) return false;
    addresses.push_back(*address);
  }
  for (const Child& child : children) {
    for (const std::string& address : addresses) {
      if (!WriteFrame(child.fd, address)) return false;
    }
  }
  return true;
}

}  // namespace

void BindToCore(int rank) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(rank % static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

std::vector<std::string> RunInProcesses(int world, const UcxOptions& options,
                                        const RankBody& body) {
  const Deadline deadline = Deadline::After(*Clock::Steady(), kPatience + absl::Seconds(20));
  std::vector<Child> children = ForkAll(world, options, body);
  std::vector<std::string> texts(static_cast<size_t>(world), "failed: could not be started");
  const bool introduced =
      static_cast<int>(children.size()) == world && Introduce(children, deadline);
  for (size_t r = 0; introduced && r < children.size(); ++r) {
    texts[r] = ReadFrame(children[r].fd, deadline).value_or("failed: ended without a word");
  }
  for (size_t r = 0; r < children.size(); ++r) {
    close(children[r].fd);
    if (!introduced || deadline.HasPassed(*Clock::Steady())) kill(children[r].pid, SIGKILL);
    int status = 0;
    waitpid(children[r].pid, &status, 0);
    if (status != 0) texts[r] = absl::StrCat("failed: wait status ", status, ": ", texts[r]);
  }
  return texts;
}

}  // namespace rz::testing
