#include "collectives/schedule_cache.h"

#include <cstdint>
#include <vector>

#include "collectives/schedule/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;

constexpr int32_t kLargestWorld = 64;

// What each collective promises, whatever carries it.
Goal GoalOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return Goal::kAllReduce;
    case Collective::kReduceScatter:
      return Goal::kReduceScatter;
    case Collective::kAllGather:
      return Goal::kAllGather;
    case Collective::kBroadcast:
      return Goal::kBroadcast;
    case Collective::kBarrier:
      return Goal::kBarrier;
  }
  return Goal::kBarrier;
}

struct Carrier {
  Collective collective;
  Algorithm algorithm;
};

class BuildScheduleTest : public ::testing::TestWithParam<Carrier> {};

TEST_P(BuildScheduleTest, WhatPlansUseIsProvedForEveryWorld) {
  const auto [collective, algorithm] = GetParam();
  for (int32_t world = 1; world <= kLargestWorld; ++world) {
    for (Format partials : {Format::kWire, Format::kAccumulator}) {
      for (bool in_place : {false, true}) {
        const int32_t root = world / 2;
        std::vector<Schedule> schedules;
        for (int32_t rank = 0; rank < world; ++rank) {
          schedules.push_back(BuildSchedule(collective, algorithm, partials, rank, world, root));
        }
        ASSERT_THAT(VerifySchedules(schedules, {.goal = GoalOf(collective),
                                                .root = root,
                                                .in_place = in_place,
                                                .partials = partials}),
                    IsOk());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BuildScheduleTest,
    ::testing::Values(Carrier{Collective::kAllReduce, Algorithm::kRing},
                      Carrier{Collective::kAllReduce, Algorithm::kPairwise},
                      Carrier{Collective::kReduceScatter, Algorithm::kRing},
                      Carrier{Collective::kReduceScatter, Algorithm::kRingWire},
                      Carrier{Collective::kReduceScatter, Algorithm::kPairwise},
                      Carrier{Collective::kAllGather, Algorithm::kRing},
                      Carrier{Collective::kBroadcast, Algorithm::kBinomial},
                      Carrier{Collective::kBroadcast, Algorithm::kChain},
                      Carrier{Collective::kBarrier, Algorithm::kDissemination}),
    [](const auto& info) {
      return std::string(NameOf(info.param.collective)) + "_" +
             std::string(NameOf(info.param.algorithm));
    });

TEST(ScheduleCacheTest, SameCallsShareASchedule) {
  ScheduleCache cache(Rank(1), 4);
  const auto get = [&](Algorithm algorithm, Format partials) {
    return cache.Get(Collective::kReduceScatter, algorithm, partials, Rank(0));
  };
  const Schedule* ring = get(Algorithm::kRing, Format::kWire);
  EXPECT_EQ(get(Algorithm::kRing, Format::kWire), ring);
  EXPECT_NE(get(Algorithm::kRing, Format::kAccumulator), ring);
  EXPECT_NE(get(Algorithm::kPairwise, Format::kWire), ring);
}

TEST(ScheduleCacheTest, RootsHaveTheirOwnSchedules) {
  ScheduleCache cache(Rank(1), 4);
  const auto get = [&](int root) {
    return cache.Get(Collective::kBroadcast, Algorithm::kChain, Format::kWire, Rank(root));
  };
  EXPECT_NE(get(0), get(1));
  EXPECT_EQ(get(2), get(2));
}

}  // namespace
}  // namespace rz
