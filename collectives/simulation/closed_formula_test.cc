#include "collectives/simulation/closed_formula.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/algorithm.h"
#include "collectives/simulation/shared_schedules.h"
#include "collectives/simulation/simulated_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

constexpr double kAlpha = 5e-6;
constexpr double kBeta = 1 / 25e9;
constexpr double kTolerance = 0.05;

SimulatedCall CallOf(Collective collective, Algorithm algorithm, int world, int64_t bytes) {
  SimulatedCall call;
  call.collective = collective;
  call.algorithm = algorithm;
  call.world = world;
  call.count = bytes / 4;
  return call;
}

SimulatedTimes Simulated(const SimulatedCall& call) {
  const SharedSchedules schedules(call.collective, call.algorithm, call.partials(), call.world);
  const absl::StatusOr<SimulatedTimes> times = Simulate(call, schedules);
  EXPECT_OK(times.status());
  return times.value_or(SimulatedTimes{});
}

double SecondsOf(const SimulatedTimes& times) {
  return absl::ToDoubleSeconds(DurationOf(times.time));
}

// Over the closed formula's time.
double RatioOf(const SimulatedCall& call) {
  const std::optional<SimTime> formula = ClosedFormula(call);
  EXPECT_TRUE(formula.has_value());
  return static_cast<double>(Simulated(call).time) / static_cast<double>(formula.value_or(1));
}

// The formulas as a textbook has them, written out here for one lane.
TEST(TextbookFormulaTest, RingIsAMessageOfABlockForEveryOtherRank) {
  for (const int64_t bytes : {int64_t{64} << 10, int64_t{16} << 20}) {
    for (const int world : {64, 512}) {
      const double block = static_cast<double>(bytes) / world;
      const double half = (world - 1) * (kAlpha + block * kBeta);
      for (const auto& [collective, expected] : {std::pair{Collective::kReduceScatter, half},
                                                 {Collective::kAllGather, half},
                                                 {Collective::kAllReduce, 2 * half}}) {
        const SimulatedTimes times = Simulated(CallOf(collective, Algorithm::kRing, world, bytes));
        EXPECT_NEAR(SecondsOf(times) / expected, 1, 1e-6) << NameOf(collective) << " " << world;
        const int64_t sent = (world - 1) * (bytes / world);
        EXPECT_EQ(times.rank_bytes, collective == Collective::kAllReduce ? 2 * sent : sent);
      }
    }
  }
}

TEST(TextbookFormulaTest, RingOfManyLanesIsWithinFivePercent) {
  constexpr int kWorld = 64;
  constexpr int64_t kBytes = int64_t{1} << 30;
  const SimulatedTimes times =
      Simulated(CallOf(Collective::kReduceScatter, Algorithm::kRing, kWorld, kBytes));
  EXPECT_NEAR(SecondsOf(times) / ((kWorld - 1) * (kAlpha + double{kBytes} / kWorld * kBeta)), 1,
              kTolerance);
  EXPECT_EQ(times.rank_bytes, kBytes / kWorld * (kWorld - 1));
}

TEST(TextbookFormulaTest, HalvingIsALogarithmOfLatencies) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  for (const auto& [world, hops] : {std::pair{64, 6}, {512, 9}}) {
    SimulatedCall call = CallOf(Collective::kReduceScatter, Algorithm::kHalving, world, kBytes);
    call.slice_bytes = size_t{64} << 20;  // one lane
    const double sent = double{kBytes} / world * (world - 1);
    EXPECT_NEAR(SecondsOf(Simulated(call)) / (hops * kAlpha + sent * kBeta), 1, kTolerance)
        << world;
    call = CallOf(Collective::kAllGather, Algorithm::kBruck, world, kBytes);
    EXPECT_NEAR(SecondsOf(Simulated(call)) / (hops * kAlpha + sent * kBeta), 1, kTolerance)
        << world;
  }
}

TEST(TextbookFormulaTest, PairwiseSendsToFourAtATime) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  for (const int world : {64, 512}) {
    const double sent = double{kBytes} / world * (world - 1);
    const double hops = (world - 1 + 3) / 4;
    const SimulatedTimes times =
        Simulated(CallOf(Collective::kReduceScatter, Algorithm::kPairwise, world, kBytes));
    EXPECT_NEAR(SecondsOf(times) / (hops * kAlpha + sent * kBeta), 1, kTolerance) << world;
  }
}

struct Case {
  Collective collective;
  Algorithm algorithm;
  int world;
  int64_t bytes;
  double reduce_bandwidth;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const auto& [collective, algorithm] :
       {std::pair{Collective::kReduceScatter, Algorithm::kRing},
        {Collective::kReduceScatter, Algorithm::kPairwise},
        {Collective::kReduceScatter, Algorithm::kHalving},
        {Collective::kAllGather, Algorithm::kRing},
        {Collective::kAllGather, Algorithm::kBruck},
        {Collective::kAllReduce, Algorithm::kRing},
        {Collective::kAllReduce, Algorithm::kPairwise}}) {
    for (const int64_t bytes : {int64_t{64} << 10, int64_t{16} << 20, int64_t{1} << 30}) {
      cases.push_back({collective, algorithm, 64, bytes, 0});
      if (bytes < int64_t{1} << 30) cases.push_back({collective, algorithm, 512, bytes, 0});
      const bool none = algorithm == Algorithm::kHalving && bytes > 64 << 10;
      if (!none) cases.push_back({collective, algorithm, 64, bytes, 20e9});
    }
  }
  cases.push_back({Collective::kAllReduce, Algorithm::kHalving, 64, 64 << 10, 0});
  cases.push_back({Collective::kAllReduce, Algorithm::kHalving, 512, 1 << 20, 20e9});
  return cases;
}

class ClosedFormulaTest : public ::testing::TestWithParam<Case> {};

TEST_P(ClosedFormulaTest, IsWithinFivePercent) {
  const Case& c = GetParam();
  SimulatedCall call = CallOf(c.collective, c.algorithm, c.world, c.bytes);
  call.reduce_bandwidth = c.reduce_bandwidth;
  EXPECT_NEAR(RatioOf(call), 1, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(All, ClosedFormulaTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return absl::StrCat(std::string(NameOf(c.collective)), "_",
                                               std::string(NameOf(c.algorithm)), "_", c.world, "_",
                                               c.bytes, c.reduce_bandwidth > 0 ? "_adding" : "");
                         });

TEST(HostsTest, RingBarelyFeelsASharedInterface) {
  // Of the eight ranks of a host one sends to another host.
  SimulatedCall call = CallOf(Collective::kReduceScatter, Algorithm::kRing, 64, int64_t{256} << 20);
  const double alone = SecondsOf(Simulated(call));
  call.links.ranks_per_host = 8;
  call.links.host_bandwidth = call.links.rank_bandwidth;
  EXPECT_NEAR(SecondsOf(Simulated(call)) / alone, 1, 0.01);
  EXPECT_NEAR(RatioOf(call), 1, kTolerance);
}

TEST(HostsTest, PairwiseSharesIt) {
  SimulatedCall call =
      CallOf(Collective::kReduceScatter, Algorithm::kPairwise, 64, int64_t{256} << 20);
  const double alone = SecondsOf(Simulated(call));
  for (const int ranks : {2, 8}) {
    call.links.ranks_per_host = ranks;
    call.links.host_bandwidth = call.links.rank_bandwidth;
    // What does not leave the host does not share it.
    const double share = ranks * (64.0 - ranks) / 63;
    const SimulatedTimes times = Simulated(call);
    EXPECT_NEAR(SecondsOf(times) / alone, share, kTolerance * share);
    EXPECT_EQ(times.host_bytes, call.count * 4 / 64 * ranks * (64 - ranks));
    EXPECT_NEAR(RatioOf(call), 1, kTolerance);
  }
}

TEST(HostsTest, FormulasHoldForRealisticHosts) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kPairwise}) {
    for (const int64_t bytes : {int64_t{64} << 10, int64_t{16} << 20, int64_t{64} << 20}) {
      SimulatedCall call = CallOf(Collective::kReduceScatter, algorithm, 256, bytes);
      call.links.ranks_per_host = 8;
      call.links.host_bandwidth = 50e9;
      call.links.local_latency = absl::Microseconds(1);
      call.links.local_bandwidth = 300e9;
      EXPECT_NEAR(RatioOf(call), 1, kTolerance) << NameOf(algorithm) << " " << bytes;
      if (algorithm != Algorithm::kRing) continue;
      call.links.hosts_per_rack = 8;
      call.links.rack_bandwidth = 200e9;
      EXPECT_NEAR(RatioOf(call), 1, kTolerance) << NameOf(algorithm) << " " << bytes << " racks";
    }
  }
}

TEST(HostsTest, RingWaitsForTheMeanOfItsLinks) {
  SimulatedCall call = CallOf(Collective::kReduceScatter, Algorithm::kRing, 512, 64 << 10);
  call.links.ranks_per_host = 8;
  call.links.local_latency = absl::Microseconds(1);
  EXPECT_NEAR(SecondsOf(Simulated(call)), 511 * (7 * 1e-6 + 1 * kAlpha) / 8,
              kTolerance * 511 * 1.5e-6);
  EXPECT_NEAR(RatioOf(call), 1, kTolerance);
}

TEST(HostsTest, RackUplinkIsSharedByItsHosts) {
  // 16 hosts of a rank each in a rack, whose uplink carries a quarter of what they send.
  SimulatedCall call =
      CallOf(Collective::kReduceScatter, Algorithm::kPairwise, 64, int64_t{256} << 20);
  const double alone = SecondsOf(Simulated(call));
  call.links.hosts_per_rack = 16;
  call.links.rack_bandwidth = 4 * call.links.rank_bandwidth;
  const double share = 16 * 48.0 / 63 / 4;
  const SimulatedTimes times = Simulated(call);
  EXPECT_NEAR(SecondsOf(times) / alone, share, kTolerance * share);
  EXPECT_EQ(times.rack_bytes, call.count * 4 / 64 * 16 * 48);
  EXPECT_FALSE(ClosedFormula(call));
  call.algorithm = Algorithm::kRing;
  EXPECT_NEAR(SecondsOf(Simulated(call)) / alone, 1, kTolerance);
}

TEST(FormulaTest, WiderSumsAreTwiceTheBytes) {
  SimulatedCall call = CallOf(Collective::kReduceScatter, Algorithm::kRing, 64, int64_t{16} << 20);
  call.dtype = DType::kBFloat16;
  call.mode = NumericMode::kDeterministic;
  const double wide = RatioOf(call);
  EXPECT_NEAR(wide, 1, kTolerance);
  EXPECT_EQ(Simulated(call).rank_bytes, call.count / 64 * 63 * 4);
  call.mode = NumericMode::kFast;
  EXPECT_EQ(Simulated(call).rank_bytes, call.count / 64 * 63 * 2);
  EXPECT_NEAR(RatioOf(call), 1, kTolerance);
}

TEST(FormulaTest, ThereIsNoneForOthers) {
  EXPECT_FALSE(ClosedFormula(CallOf(Collective::kBroadcast, Algorithm::kBinomial, 8, 64)));
  SimulatedCall call = CallOf(Collective::kReduceScatter, Algorithm::kHalving, 64, 16 << 20);
  EXPECT_TRUE(ClosedFormula(call));
  call.count = 63;
  EXPECT_FALSE(ClosedFormula(call)) << "an empty block";
  call.count = 4 << 20;
  call.reduce_bandwidth = 1e9;
  EXPECT_FALSE(ClosedFormula(call)) << "several lanes";
  call.reduce_bandwidth = 0;
  call.links.ranks_per_host = 8;
  call.links.host_bandwidth = 1e9;
  EXPECT_FALSE(ClosedFormula(call));
}

}  // namespace
}  // namespace rz
