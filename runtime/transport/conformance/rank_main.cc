#include "runtime/transport/conformance/rank_main.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/transport/conformance/script_runner.h"

namespace rz::conformance {
namespace {

std::vector<std::string> Run(const Case& c, Capabilities capabilities, Transport& transport,
                             const std::function<void()>& die) {
  const Context context = {transport.rank().value(), c.world, c.seed, capabilities};
  ScriptRunner runner(&transport, c.scenario.script(context), die);
  const Deadline deadline = Deadline::After(*Clock::Steady(), kCaseTimeout);
  std::vector<std::string> stuck;
  while (!runner.Poll()) {
    if (runner.WaitsForCompletions()) transport.WaitForEvent(deadline);
    if (!deadline.HasPassed(*Clock::Steady())) continue;
    stuck.push_back("stuck: " + runner.Position());
    break;
  }
  std::vector<std::string> failures = runner.failures();
  failures.insert(failures.end(), stuck.begin(), stuck.end());
  if (stuck.empty()) return failures;
  // Buffers of operations under way go with the runner.
  transport.Abort(absl::AbortedError("the case is stuck"));
  const Deadline aborted = Deadline::After(*Clock::Steady(), absl::Seconds(10));
  while (!runner.Poll() && !aborted.HasPassed(*Clock::Steady())) {
  }
  return failures;
}

}  // namespace

std::vector<std::string> RankMain(const Case& c, Capabilities capabilities, Rank rank,
                                  const TransportFactory& factory, const Exchange& exchange,
                                  const std::function<void()>& die) {
  auto transport = factory();
  const std::vector<std::string> addresses =
      exchange(transport.ok() ? (*transport)->LocalAddress() : "");
  if (!transport.ok()) return {absl::StrCat("creating: ", transport.status().ToString())};
  if (addresses.empty()) return {"no addresses"};
  const absl::Status connected = (*transport)->Connect(rank, addresses, Epoch(3));
  if (!connected.ok()) return {absl::StrCat("connecting: ", connected.ToString())};
  return Run(c, capabilities, **transport, die);
}

}  // namespace rz::conformance
