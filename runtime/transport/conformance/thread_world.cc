#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/transport/conformance/rank_main.h"
#include "runtime/transport/conformance/script_runner.h"
#include "runtime/transport/conformance/worlds.h"

namespace rz::conformance {
namespace {

// Where the threads of a world meet.
class AddressBoard {
 public:
  explicit AddressBoard(int world) : addresses_(world), missing_(world) {}

  std::vector<std::string> Exchange(int rank, const std::string& address) {
    std::unique_lock<std::mutex> lock(mutex_);
    addresses_[rank] = address;
    if (--missing_ == 0) complete_.notify_all();
    complete_.wait(lock, [this] { return missing_ == 0; });
    return addresses_;
  }

 private:
  // Not absl::Mutex: tsan does not see through the distribution's uninstrumented one.
  std::mutex mutex_;
  std::condition_variable complete_;
  std::vector<std::string> addresses_;
  int missing_;
};

void Append(std::vector<std::string>& all, const std::vector<std::string>& some) {
  all.insert(all.end(), some.begin(), some.end());
}

}  // namespace

std::vector<std::string> RunInThreads(const Case& c, Capabilities capabilities,
                                      const TransportFactory& factory) {
  AddressBoard board(c.world);
  std::vector<std::vector<std::string>> results(c.world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < c.world; ++rank) {
    threads.emplace_back([&, rank] {
      const auto exchange = [&board, rank](const std::string& address) {
        return board.Exchange(rank, address);
      };
      results[rank] = RankMain(c, capabilities, Rank(rank), factory, exchange, nullptr);
    });
  }
  std::vector<std::string> failures;
  for (int rank = 0; rank < c.world; ++rank) {
    threads[rank].join();
    Append(failures, results[rank]);
  }
  return failures;
}

std::vector<std::string> RunInTurn(const Case& c, Capabilities capabilities,
                                   absl::Span<Transport* const> transports,
                                   const std::function<void()>& step,
                                   const std::function<void(Rank)>& die) {
  std::vector<std::unique_ptr<ScriptRunner>> runners;
  for (int rank = 0; rank < c.world; ++rank) {
    const Context context = {rank, c.world, c.seed, capabilities};
    runners.push_back(std::make_unique<ScriptRunner>(transports[rank], c.scenario.script(context),
                                                     [&die, rank] { die(Rank(rank)); }));
  }
  const Deadline deadline = Deadline::After(*Clock::Steady(), kCaseTimeout);
  std::vector<std::string> failures;
  while (true) {
    bool done = true;
    for (auto& runner : runners) done &= runner->Poll();
    if (done) break;
    if (step != nullptr) step();
    if (!deadline.HasPassed(*Clock::Steady())) continue;
    for (auto& runner : runners) failures.push_back("stuck: " + runner->Position());
    break;
  }
  for (auto& runner : runners) Append(failures, runner->failures());
  return failures;
}

}  // namespace rz::conformance
