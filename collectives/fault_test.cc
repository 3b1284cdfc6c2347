// A rank dies at every event of an all_reduce in turn, loudly and silently: survivors end with an
// error or with the right result, nobody hangs, and nothing works afterwards that needs the dead.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/testing/oracle.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::IsOk;
using ::rz::testing::RandomElements;
using ::rz::testing::ReduceAll;
using ::rz::testing::Rounding;
using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int kWorld = 4;
constexpr int64_t kCount = 10;
constexpr DType kType = DType::kBFloat16;

struct Scenario {
  std::string algorithms;
  Rank victim;
  int64_t at_event;
  bool silent;
  uint64_t seed;
};

class Experiment {
 public:
  explicit Experiment(const Scenario& scenario)
      : job_(kWorld,
             {.seed = scenario.seed,
              .fault = SimFault{scenario.victim, scenario.at_event, scenario.silent}},
             Options(scenario)),
        results_(kWorld, Bytes(kCount * SizeOf(kType))) {
    for (int r = 0; r < kWorld; ++r) inputs_.push_back(RandomElements(kType, kCount, r));
    expected_ =
        ReduceAll(inputs_, ChunkLayout(kCount, kWorld, 0), kType, ReduceOp::kSum, Rounding::kOnce);
  }

  // One all_reduce; where it gets stuck, everybody's deadline passes.
  void AllReduce() {
    const absl::Status run = job_.Run(1, [this](int r, int) {
      return job_.comm(r).StartAllReduce(inputs_[r].data(), results_[r].data(), kCount, kType,
                                         ReduceOp::kSum);
    });
    if (run.ok()) return;
    ASSERT_THAT(run, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is dead")));
    ASSERT_THAT(job_.AbortAll(absl::DeadlineExceededError("deadline")), IsOk());
  }

  bool Died() { return Dead().size() == 1; }

  std::set<int> Dead() {
    std::set<int> dead;
    for (int r = 0; r < kWorld; ++r) {
      if (job_.world().IsDead(Rank(r))) dead.insert(r);
    }
    return dead;
  }

  SimJob& job() { return job_; }
  const Bytes& result(int rank) const { return results_[rank]; }
  const Bytes& expected() const { return expected_; }

 private:
  static CommunicatorOptions Options(const Scenario& scenario) {
    CommunicatorOptions options;
    options.algorithms = scenario.algorithms;
    return options;
  }

  SimJob job_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> results_;
  Bytes expected_;
};

// False once the fault strikes after the end of the operation.
bool RunScenario(const Scenario& scenario) {
  SCOPED_TRACE(::testing::Message()
               << "algorithms " << scenario.algorithms << ", victim " << scenario.victim
               << ", event " << scenario.at_event << ", silent " << scenario.silent << ", seed "
               << scenario.seed);
  Experiment experiment(scenario);
  experiment.AllReduce();
  const bool struck = experiment.Died();
  for (int r = 0; r < kWorld; ++r) {
    if (experiment.job().world().IsDead(Rank(r))) continue;
    if (experiment.job().results()[r].ok()) {
      EXPECT_EQ(experiment.result(r), experiment.expected()) << "rank " << r;
    }
  }
  if (!struck) return false;
  experiment.AllReduce();
  int named = 0;
  for (int r = 0; r < kWorld; ++r) {
    if (r == scenario.victim.value()) continue;
    const absl::Status& result = experiment.job().results()[r];
    EXPECT_FALSE(result.ok()) << "rank " << r;
    const std::string victim = "rank " + std::to_string(scenario.victim.value()) + " is dead";
    if (std::string(result.message()).find(victim) != std::string::npos) ++named;
  }
  if (!scenario.silent) {
    EXPECT_GE(named, 1);
  }
  return true;
}

class FaultTest : public ::testing::TestWithParam<std::string> {};

TEST_P(FaultTest, DeathAtEveryEventEndsEverySurvivor) {
  constexpr int64_t kMoreThanAllEvents = 10'000;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (int victim = 0; victim < kWorld; ++victim) {
      for (bool silent : {false, true}) {
        int64_t event = 0;
        while (event < kMoreThanAllEvents &&
               RunScenario({GetParam(), Rank(victim), event, silent, seed})) {
          ++event;
        }
        ASSERT_GT(event, 50) << "the fault never struck in the middle";
        ASSERT_LT(event, kMoreThanAllEvents);
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, FaultTest,
                         ::testing::Values("all_reduce:ring", "all_reduce:pairwise"),
                         [](const auto& info) { return info.param.substr(11); });

}  // namespace
}  // namespace rz
