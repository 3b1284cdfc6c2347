// One-way latency and bandwidth of UcxTransport between two processes, over TCP (loopback) and
// shared memory.
//
// The parent forks the other rank before UCX is used. A ping-pong of `size` bytes gives the
// latency; a window of kWindow messages, answered by one byte, gives the bandwidth.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/transport/ucx/ucx_transport.h"

namespace rz {
namespace {

constexpr int kWindow = 8;
constexpr size_t kLargest = size_t{16} << 20;

class Counter : public CompletionSink {
 public:
  void OnComplete(uint64_t token, const absl::Status& status, size_t bytes) override {
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::exit(1);
    }
    ++count;
  }
  int64_t count = 0;
};

// One rank of a pair.
class Endpoint {
 public:
  Endpoint(Transport* transport, int self)
      : transport_(transport), peer_(1 - self), data_(kWindow * kLargest, std::byte{1}) {}

  void Send(int slot, size_t size) {
    ++posted_;
    Check(transport_->PostSend(peer_, 1, Slot(slot, size), &counter_, 0));
  }
  void Receive(int slot, size_t size) {
    ++posted_;
    Check(transport_->PostRecv(peer_, 1, Slot(slot, size), &counter_, 0));
  }
  void Await() {
    while (counter_.count < posted_) {
      if (transport_->Progress() == 0 && counter_.count < posted_) {
        transport_->WaitForEvent(Deadline::InfiniteFuture());
      }
    }
  }

  void PingPong(bool first, int rounds, size_t size) {
    for (int i = 0; i < rounds; ++i) {
      first ? Send(0, size) : Receive(0, size);
      Await();
      first ? Receive(0, size) : Send(0, size);
      Await();
    }
  }

  void Stream(bool sender, int rounds, size_t size) {
    for (int i = 0; i < rounds; ++i) {
      for (int slot = 0; slot < kWindow; ++slot) sender ? Send(slot, size) : Receive(slot, size);
      Await();
      sender ? Receive(0, 1) : Send(0, 1);
      Await();
    }
  }

 private:
  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }
  absl::Span<std::byte> Slot(int slot, size_t size) {
    return absl::MakeSpan(data_.data() + slot * kLargest, size);
  }

  Transport* const transport_;
  const Rank peer_;
  std::vector<std::byte> data_;
  Counter counter_;
  int64_t posted_ = 0;
};

std::string ExchangeAddress(int fd, const std::string& own) {
  const uint32_t size = static_cast<uint32_t>(own.size());
  uint32_t other_size = 0;
  if (write(fd, &size, sizeof size) != sizeof size ||
      write(fd, own.data(), size) != static_cast<ssize_t>(size) ||
      recv(fd, &other_size, sizeof other_size, MSG_WAITALL) != sizeof other_size) {
    std::exit(1);
  }
  std::string other(other_size, '\0');
  if (recv(fd, other.data(), other_size, MSG_WAITALL) != static_cast<ssize_t>(other_size)) {
    std::exit(1);
  }
  return other;
}

// The median of several repetitions of `run`, in seconds.
template <typename Run>
double MedianSeconds(Run run) {
  constexpr int kRepetitions = 7;
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    const absl::Duration start = Clock::Steady()->Now();
    run();
    seconds.push_back(absl::ToDoubleSeconds(Clock::Steady()->Now() - start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepetitions / 2, seconds.end());
  return seconds[kRepetitions / 2];
}

void RunRank(const UcxOptions& options, int self, int fd) {
  auto transport = CreateUcxTransport(options);
  if (!transport.ok()) std::exit(1);
  std::vector<std::string> addresses(2);
  addresses[self] = (*transport)->LocalAddress();
  addresses[1 - self] = ExchangeAddress(fd, addresses[self]);
  if (!(*transport)->Connect(Rank(self), addresses, Epoch(1)).ok()) std::exit(1);
  Endpoint endpoint(transport->get(), self);
  const bool prints = self == 0;
  endpoint.PingPong(prints, 1000, 8);
  if (prints) std::printf("%s\n", (*transport)->Description().c_str());
  for (size_t size : {8, 1024, 8192}) {
    constexpr int kRounds = 2000;
    const double seconds = MedianSeconds([&] { endpoint.PingPong(prints, kRounds, size); });
    if (prints) std::printf("  %9zu B one way  %8.2f us\n", size, 1e6 * seconds / kRounds / 2);
  }
  for (size_t size : {size_t{64} << 10, size_t{256} << 10, size_t{1} << 20, kLargest}) {
    const int rounds = static_cast<int>(std::max<size_t>(1, (size_t{64} << 20) / size / kWindow));
    endpoint.Stream(prints, 1, size);
    const double seconds = MedianSeconds([&] { endpoint.Stream(prints, rounds, size); });
    if (prints) {
      std::printf("  %9zu B          %8.2f GB/s\n", size, 1e-9 * rounds * kWindow * size / seconds);
    }
  }
  std::fflush(stdout);
}

void RunPair(const UcxOptions& options) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) std::exit(1);
  for (int self : {0, 1}) {
    if (fork() != 0) continue;
    RunRank(options, self, fds[self]);
    _exit(0);
  }
  close(fds[0]);
  close(fds[1]);
  while (wait(nullptr) > 0) {
  }
}

}  // namespace
}  // namespace rz

int main() {
  rz::UcxOptions options;
  options.transports = rz::UcxOptions::Transports::kTcp;
  options.net_device = "lo";
  rz::RunPair(options);
  options = {};
  options.transports = rz::UcxOptions::Transports::kSharedMemory;
  rz::RunPair(options);
}
