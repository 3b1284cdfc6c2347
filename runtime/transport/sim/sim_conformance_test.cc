// The conformance suite on SimWorld, whose scheduler polls the scripts.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/conformance/scenarios.h"
#include "runtime/transport/conformance/script_runner.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using conformance::Case;
using conformance::Context;
using conformance::ScriptRunner;

constexpr conformance::Capabilities kCapabilities =
    conformance::kReportsPeerDeath | conformance::kCanDie;
constexpr int kLargestWorld = 8;
constexpr int kSeeds = 5;

// Scripts poll this often at most without waiting for anything.
constexpr int kIdlePolls = 1000;

class SimConformanceTest : public ::testing::TestWithParam<Case> {
 protected:
  static void Run(SendMode send_mode, std::optional<LinkOptions> links = std::nullopt) {
    const Case& c = GetParam();
    SimWorld world(c.world, {.seed = c.seed,
                             .send_mode = send_mode,
                             .connected = false,
                             .idle_polls = kIdlePolls,
                             .links = links});
    std::vector<std::string> addresses;
    for (int r = 0; r < c.world; ++r) {
      addresses.push_back(world.transport(Rank(r))->LocalAddress());
    }
    std::vector<std::unique_ptr<ScriptRunner>> runners;
    std::vector<std::function<bool()>> ranks;
    for (int r = 0; r < c.world; ++r) {
      Transport* transport = world.transport(Rank(r));
      ASSERT_OK(transport->Connect(Rank(r), addresses, Epoch(1)));
      const Context context{
          .rank = r, .world = c.world, .seed = c.seed, .capabilities = kCapabilities};
      runners.push_back(
          std::make_unique<ScriptRunner>(transport, c.scenario.script(context),
                                         [&world, r] { world.Kill(Rank(r), /*silent=*/false); }));
      ranks.push_back([runner = runners.back().get()] { return runner->Poll(); });
    }
    const absl::Status run = world.Run(ranks);
    for (int r = 0; r < c.world; ++r) {
      EXPECT_OK(run) << "rank " << r << ": " << runners[r]->Position();
      EXPECT_TRUE(runners[r]->failures().empty())
          << "rank " << r << ": " << absl::StrJoin(runners[r]->failures(), "\n");
    }
    // Nothing may complete after its memory is gone.
    for (int r = 0; r < c.world; ++r) world.transport(Rank(r))->Abort(absl::CancelledError("end"));
    for (int r = 0; r < c.world; ++r) world.transport(Rank(r))->Progress();
  }
};

TEST_P(SimConformanceTest, Eager) { Run(SendMode::kEager); }
TEST_P(SimConformanceTest, Rendezvous) { Run(SendMode::kRendezvous); }
TEST_P(SimConformanceTest, Mixed) { Run(SendMode::kMixed); }
TEST_P(SimConformanceTest, OverLinks) {
  Run(SendMode::kEager, LinkOptions{.ranks_per_host = 2, .host_bandwidth = 1e9});
}

INSTANTIATE_TEST_SUITE_P(All, SimConformanceTest,
                         ::testing::ValuesIn(conformance::AllCases(kCapabilities, kLargestWorld,
                                                                   kSeeds)),
                         [](const auto& info) { return conformance::NameOf(info.param); });

}  // namespace
}  // namespace rz
