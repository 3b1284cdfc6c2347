// What is gathered ahead of its use, and what is kept from forward to backward.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_config.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kWorld = 2;
constexpr size_t kUnits = 4;

// Units of 256, 192, 128 and 64 elements, without padding.
std::vector<ParamSpec> Specs() {
  return {{"a", {256}, 0}, {"b", {192}, 1}, {"c", {128}, 2}, {"d", {64}, 3}};
}

std::unique_ptr<SimRanks> MakeRanks(int64_t prefetched, int64_t reuse_distance,
                                    int64_t live = 1'000'000) {
  ZeroConfig config;
  config.stage = ZeroStage::kThree;
  config.tile_chunk = 32;
  config.prefetch_bucket_size = prefetched;
  config.max_reuse_distance = reuse_distance;
  config.max_live_parameters = live;
  auto ranks = SimRanks::Create(kWorld, "", Specs(), config);
  EXPECT_OK(ranks.status());
  const auto zeros = [](size_t, absl::Span<float> values) {
    std::fill(values.begin(), values.end(), 0.0f);
  };
  for (const absl::Status& status : (*ranks)->Initialize(zeros)) EXPECT_OK(status);
  return *std::move(ranks);
}

std::vector<size_t> Gathered(SimRanks& ranks) {
  EXPECT_OK(ranks.PollAll());
  std::vector<size_t> units;
  for (size_t unit = 0; unit < kUnits; ++unit) {
    if (ranks.optimizer(1).IsGathered(unit)) units.push_back(unit);
  }
  return units;
}

void Use(SimRanks& ranks, size_t unit, Pass pass) {
  for (const absl::Status& status : ranks.Gather(unit, pass)) ASSERT_OK(status);
  for (int rank = 0; rank < kWorld; ++rank) ranks.optimizer(rank).Prefetch(unit, pass);
  // What is on its way is not released.
  ASSERT_OK(ranks.PollAll());
}

void Release(SimRanks& ranks, size_t unit, Pass pass) {
  for (const absl::Status& status : ranks.Release(unit, pass)) ASSERT_OK(status);
}

void Forward(SimRanks& ranks, size_t units = kUnits) {
  for (size_t unit = 0; unit < units; ++unit) {
    Use(ranks, unit, Pass::kForward);
    Release(ranks, unit, Pass::kForward);
  }
}

TEST(UnitPrefetchTest, AsManyElementsAsTheBucketSizeAreGatheredAhead) {
  struct Case {
    int64_t size;
    std::vector<size_t> gathered;
  };
  const Case cases[] = {
      {191, {0}}, {192, {0, 1}}, {319, {0, 1}}, {320, {0, 1, 2}}, {384, {0, 1, 2, 3}}};
  for (const auto& [size, gathered] : cases) {
    const auto ranks = MakeRanks(size, 0);
    Use(*ranks, 0, Pass::kForward);
    EXPECT_EQ(Gathered(*ranks), gathered) << size;
  }
}

TEST(UnitPrefetchTest, BackwardsUnitsFollowForwards) {
  const auto ranks = MakeRanks(192, 0);
  Forward(*ranks, 3);
  Use(*ranks, 3, Pass::kForward);
  // The last one is kept. The second would be beside the third.
  EXPECT_THAT(Gathered(*ranks), ElementsAre(2, 3));
  Release(*ranks, 3, Pass::kForward);
  Use(*ranks, 3, Pass::kBackward);
  Release(*ranks, 3, Pass::kBackward);
  Use(*ranks, 2, Pass::kBackward);
  EXPECT_THAT(Gathered(*ranks), ElementsAre(1, 2));
}

TEST(UnitPrefetchTest, WhatForwardHasNotLetGoOfIsNotGatheredForBackward) {
  const auto ranks = MakeRanks(1'000'000, 0);
  Forward(*ranks, 2);
  Use(*ranks, 2, Pass::kForward);
  EXPECT_THAT(Gathered(*ranks), ElementsAre(2, 3));
}

TEST(UnitPrefetchTest, NothingFollowsAnEvaluation) {
  const auto ranks = MakeRanks(1'000'000, 0);
  Use(*ranks, 3, Pass::kEvaluation);
  EXPECT_THAT(Gathered(*ranks), ElementsAre(3));
}

TEST(UnitPrefetchTest, NothingIsGatheredAheadBeyondTheLiveParameters) {
  const auto ranks = MakeRanks(1'000'000, 0, 256 + 192);
  Use(*ranks, 0, Pass::kForward);
  EXPECT_THAT(Gathered(*ranks), ElementsAre(0, 1));
}

// Between its two uses the last unit has none, the one before 128 elements, then 384 and 768. What
// is kept may take buffers of 256, and two are left to others: whatever may live, a step goes on.
TEST(UnitPrefetchTest, UnitsWithinTheReuseDistanceAreKeptAndSentOnce) {
  struct Case {
    int64_t distance;
    int64_t live;
    std::vector<size_t> kept;
    int64_t elements;  // gathered in a step
  };
  const Case cases[] = {{0, 1'600, {3}, 2 * 640 - 64},       {127, 1'600, {3}, 2 * 640 - 64},
                        {128, 1'600, {2, 3}, 2 * 640 - 192}, {384, 1'600, {1, 2, 3}, 2 * 640 - 384},
                        {768, 1'600, {0, 1, 2, 3}, 640},     {768, 1'100, {2, 3}, 2 * 640 - 192},
                        {768, 300, {3}, 2 * 640 - 64}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.distance);
    const auto ranks = MakeRanks(1, c.distance, c.live);
    Forward(*ranks);
    EXPECT_EQ(Gathered(*ranks), c.kept);
    for (size_t unit = kUnits; unit-- > 0;) {
      Use(*ranks, unit, Pass::kBackward);
      Release(*ranks, unit, Pass::kBackward);
    }
    EXPECT_THAT(Gathered(*ranks), IsEmpty());
    const auto reports = ranks->Step({0.1});
    ASSERT_OK(reports[0].status());
    ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks->optimizer(0).ExpectedWire());
    EXPECT_EQ(plan.gather_bytes, c.elements / kWorld * 2);
  }
}

TEST(UnitPrefetchTest, AStepSendsWhatThePlanSays) {
  for (const int64_t distance : {0, 128, 384, 768}) {
    const auto ranks = MakeRanks(256, distance);
    for (int step = 0; step < 2; ++step) {
      for (int rank = 0; rank < kWorld; ++rank) ranks->SetGradient(rank, 0, 0, 1);
      const auto reports = ranks->Step({0.1});
      ASSERT_OK(reports[0].status());
      ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks->optimizer(0).ExpectedWire());
      EXPECT_EQ(reports[0]->payload_bytes, plan.payload_bytes()) << distance;
    }
  }
}

}  // namespace
}  // namespace rz
