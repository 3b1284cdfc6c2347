// What comparing calls and recording them costs: all_reduce of 8 bytes between two processes, over
// UCX's messages and through shared memory, with and without, in alternating blocks of one run.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "collectives/communicator.h"
#include "runtime/base/clock.h"
#include "runtime/transport/transport.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

constexpr int kBlocks = 600;
constexpr int kCallsInBlock = 500;

std::unique_ptr<Communicator> Open(Transport* transport, uint32_t id, bool check_calls,
                                   bool share_memory) {
  CommunicatorOptions options;
  options.id = id;
  options.check_calls = check_calls;
  auto comm = Communicator::Create(transport, options);
  if (!comm.ok() || (share_memory && !(*comm)->ShareMemory().ok())) return nullptr;
  return *std::move(comm);
}

// Nanoseconds a call.
double RunBlock(Communicator& comm) {
  float values[2] = {1, 2};
  const absl::Duration begin = Clock::Steady()->Now();
  for (int i = 0; i < kCallsInBlock; ++i) {
    if (!comm.AllReduce(values, values, 2, DType::kFloat32, ReduceOp::kSum).ok()) return -1;
  }
  return absl::ToDoubleNanoseconds(Clock::Steady()->Now() - begin) / kCallsInBlock;
}

std::string Line(const char* what, std::vector<double> blocks) {
  std::sort(blocks.begin(), blocks.end());
  return absl::StrFormat("%-8s best %6.1f  p10 %6.1f  median %6.1f ns a call\n", what,
                         blocks.front(), blocks[blocks.size() / 10], blocks[blocks.size() / 2]);
}

std::string Measure(Transport* transport, bool share_memory) {
  const std::unique_ptr<Communicator> with = Open(transport, 0, true, share_memory);
  const std::unique_ptr<Communicator> without = Open(transport, 1, false, share_memory);
  if (with == nullptr || without == nullptr) return "cannot open the communicators";
  std::vector<double> times[2];
  std::vector<double> differences;
  for (int block = 0; block < kBlocks; ++block) {
    const double a = RunBlock(*with);
    const double b = RunBlock(*without);
    if (a < 0 || b < 0) return "a call failed";
    times[0].push_back(a);
    times[1].push_back(b);
    differences.push_back(a - b);
  }
  return Line("with", times[0]) + Line("without", times[1]) + Line("the cost", differences);
}

int Main() {
  for (bool share_memory : {false, true}) {
    std::printf(
        "%s\n%s", share_memory ? "through shared memory" : "over messages",
        testing::RunInProcesses(
            2, {}, [=](Transport* transport) { return Measure(transport, share_memory); })[0]
            .c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace rz

int main() { return rz::Main(); }
