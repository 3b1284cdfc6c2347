// 4,096 ranks: the closed formulas and the bytes, as closed_formula_test has them for fewer.
#include <cstdint>
#include <optional>

#include "collectives/algorithm.h"
#include "collectives/simulation/closed_formula.h"
#include "collectives/simulation/shared_schedules.h"
#include "collectives/simulation/simulated_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

constexpr int kWorld = 4096;

struct Case {
  Collective collective;
  Algorithm algorithm;
};

class LargeWorldTest : public ::testing::TestWithParam<Case> {};

TEST_P(LargeWorldTest, TimesAreWithinFivePercentOfTheFormula) {
  SimulatedCall call;
  call.collective = GetParam().collective;
  call.algorithm = GetParam().algorithm;
  call.world = kWorld;
  const SharedSchedules schedules(call.collective, call.algorithm, call.partials(), kWorld);
  for (const int64_t bytes : {int64_t{256} << 10, int64_t{16} << 20, int64_t{1} << 30}) {
    call.count = bytes / 4;
    const std::optional<SimTime> formula = ClosedFormula(call);
    if (!formula.has_value()) continue;  // halving's all_reduce carries small calls only
    ASSERT_OK_AND_ASSIGN(const SimulatedTimes times, Simulate(call, schedules));
    EXPECT_NEAR(static_cast<double>(times.time) / static_cast<double>(*formula), 1, 0.05) << bytes;
    const int64_t halves = call.collective == Collective::kAllReduce ? 2 : 1;
    EXPECT_EQ(times.rank_bytes, halves * (bytes / kWorld) * (kWorld - 1)) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LargeWorldTest,
                         ::testing::Values(Case{Collective::kReduceScatter, Algorithm::kRing},
                                           Case{Collective::kReduceScatter, Algorithm::kPairwise},
                                           Case{Collective::kReduceScatter, Algorithm::kHalving},
                                           Case{Collective::kAllGather, Algorithm::kRing},
                                           Case{Collective::kAllGather, Algorithm::kBruck},
                                           Case{Collective::kAllReduce, Algorithm::kRing},
                                           Case{Collective::kAllReduce, Algorithm::kHalving}));

}  // namespace
}  // namespace rz
