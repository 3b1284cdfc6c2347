// The parent is the broker:
//   1. It makes a socket pair for each rank and forks the ranks.
//   2. Each rank writes one frame with its address; when all are there, each is sent all of them.
//   3. Each rank writes one frame with its failures and exits with 0. A rank that died closes its
//      socket without; only a script with kDie may do that.
// A frame is its length (8 bytes, native order) and its bytes.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/clock.h"
#include "runtime/transport/conformance/rank_main.h"
#include "runtime/transport/conformance/worlds.h"

namespace rz::conformance {
namespace {

constexpr char kSeparator = '\x1e';

bool WriteAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

bool WriteFrame(int fd, const std::string& text) {
  const uint64_t size = text.size();
  return WriteAll(fd, &size, sizeof size) && WriteAll(fd, text.data(), text.size());
}

// Reads what is there; false at the end of the stream or past `deadline`.
bool ReadSome(int fd, std::string& buffer, Deadline deadline) {
  while (true) {
    pollfd descriptor = {fd, POLLIN, 0};
    const int64_t left = absl::ToInt64Milliseconds(deadline.Remaining(*Clock::Steady()));
    if (left <= 0) return false;
    const int ready = poll(&descriptor, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char chunk[65536];
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n <= 0) return false;
    buffer.append(chunk, n);
    return true;
  }
}

std::optional<std::string> ReadFrame(int fd, Deadline deadline) {
  std::string buffer;
  uint64_t size = 0;
  while (buffer.size() < sizeof size || buffer.size() < sizeof size + size) {
    if (!ReadSome(fd, buffer, deadline)) return std::nullopt;
    if (buffer.size() >= sizeof size) std::memcpy(&size, buffer.data(), sizeof size);
  }
  return buffer.substr(sizeof size);
}

[[noreturn]] void ChildMain(const Case& c, Capabilities capabilities, int rank, int fd,
                            const TransportFactory& factory) {
  const Deadline deadline = Deadline::After(*Clock::Steady(), kCaseTimeout);
  const auto exchange = [&](const std::string& address) -> std::vector<std::string> {
    if (!WriteFrame(fd, address)) return {};
    const std::optional<std::string> all = ReadFrame(fd, deadline);
    if (!all.has_value()) return {};
    std::vector<std::string> addresses;
    size_t at = 0;
    while (at < all->size()) {
      uint64_t size;
      std::memcpy(&size, all->data() + at, sizeof size);
      addresses.push_back(all->substr(at + sizeof size, size));
      at += sizeof size + size;
    }
    return addresses;
  };
  const auto die = [] { kill(getpid(), SIGKILL); };
  const std::vector<std::string> failures =
      RankMain(c, capabilities, Rank(rank), factory, exchange, die);
  const bool told = WriteFrame(fd, absl::StrJoin(failures, std::string(1, kSeparator)));
  // Not exit: the test framework of the parent has handlers there.
  _exit(told ? 0 : 1);
}

struct Child {
  pid_t pid = -1;
  int fd = -1;
};

std::vector<Child> ForkAll(const Case& c, Capabilities capabilities,
                           const TransportFactory& factory) {
  std::vector<Child> children;
  for (int rank = 0; rank < c.world; ++rank) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) break;
    const pid_t pid = fork();
    if (pid == 0) {
      close(fds[0]);
      for (const Child& sibling : children) close(sibling.fd);
      ChildMain(c, capabilities, rank, fds[1], factory);
    }
    close(fds[1]);
    children.push_back({pid, fds[0]});
  }
  return children;
}

bool Introduce(const std::vector<Child>& children, Deadline deadline) {
  std::string all;
  for (const Child& child : children) {
    const std::optional<std::string> address = ReadFrame(child.fd, deadline);
    if (!address.has_value()) return false;
    const uint64_t size = address->size();
    all.append(reinterpret_cast<const char*>(&size), sizeof size);
    all += *address;
  }
  for (const Child& child : children) {
    if (!WriteFrame(child.fd, all)) return false;
  }
  return true;
}

// Waits for all results at once, since a dead rank has to be reaped for the others to notice.
std::vector<std::string> Collect(std::vector<Child>& children, int victim, Deadline deadline) {
  std::vector<std::string> failures;
  size_t left = children.size();
  while (left > 0) {
    std::vector<pollfd> descriptors;
    for (const Child& child : children) descriptors.push_back({child.fd, POLLIN, 0});
    const int64_t milliseconds = absl::ToInt64Milliseconds(deadline.Remaining(*Clock::Steady()));
    if (milliseconds <= 0) {
      failures.push_back("the world is stuck; its ranks are killed");
      break;
    }
    if (poll(descriptors.data(), descriptors.size(), static_cast<int>(milliseconds)) <= 0) continue;
    for (size_t rank = 0; rank < children.size(); ++rank) {
      if (descriptors[rank].revents == 0) continue;
      Child& child = children[rank];
      const std::optional<std::string> result = ReadFrame(child.fd, deadline);
      close(child.fd);
      child.fd = -1;
      int status = 0;
      waitpid(child.pid, &status, 0);
      child.pid = -1;
      --left;
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      if (static_cast<int>(rank) == victim) {
        if (!killed) failures.push_back(absl::StrCat("rank ", rank, " did not die"));
      } else if (!result.has_value() || status != 0) {
        failures.push_back(absl::StrCat("rank ", rank, " ended with wait status ", status));
      }
      if (!result.has_value() || result->empty()) continue;
      for (absl::string_view line : absl::StrSplit(*result, kSeparator)) {
        failures.push_back(std::string(line));
      }
    }
  }
  return failures;
}

// The rank whose script dies, -1 for none.
int FindVictim(const Case& c, Capabilities capabilities) {
  for (int rank = 0; rank < c.world; ++rank) {
    const Script script = c.scenario.script({rank, c.world, c.seed, capabilities});
    for (const Action& action : script.actions()) {
      if (action.kind == Action::Kind::kDie) return rank;
    }
  }
  return -1;
}

}  // namespace

std::vector<std::string> RunInProcesses(const Case& c, Capabilities capabilities,
                                        const TransportFactory& factory) {
  // A little more than the ranks give themselves, so that they can say where they are stuck.
  const Deadline deadline = Deadline::After(*Clock::Steady(), kCaseTimeout + absl::Seconds(30));
  const int victim = FindVictim(c, capabilities);
  std::vector<Child> children = ForkAll(c, capabilities, factory);
  std::vector<std::string> failures;
  if (static_cast<int>(children.size()) < c.world) failures.push_back("cannot fork all ranks");
  if (failures.empty() && !Introduce(children, deadline)) {
    failures.push_back("a rank ended before it had told its address");
  }
  if (failures.empty()) failures = Collect(children, victim, deadline);
  for (const Child& child : children) {
    if (child.fd >= 0) close(child.fd);
    if (child.pid <= 0) continue;
    kill(child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
  }
  return failures;
}

}  // namespace rz::conformance
