#include "collectives/schedule_cache.h"

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/schedule/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;

constexpr int32_t kLargestWorld = 64;

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
    case Collective::kReduce:
      return Goal::kReduce;
    case Collective::kAllToAll:
      return Goal::kAllToAll;
    case Collective::kGather:
      return Goal::kGather;
    case Collective::kScatter:
      return Goal::kScatter;
    case Collective::kBarrier:
      return Goal::kBarrier;
  }
  return Goal::kBarrier;
}

// Slots of scratch that the traits allow, generously: what bounds memory is a multiple of this.
int64_t SlotsAllowed(Footprint footprint, int64_t world) {
  switch (footprint) {
    case Footprint::kConstant:
      return 8;
    case Footprint::kWorld:
      return 3 * world + 8;
    case Footprint::kWorldSquared:
      return world * world + 8;
  }
  return 0;
}

class BuildScheduleTest : public ::testing::TestWithParam<AlgorithmTraits> {};

TEST_P(BuildScheduleTest, WhatPlansUseIsProvedForEveryWorld) {
  const AlgorithmTraits& traits = GetParam();
  for (int32_t world = 1; world <= kLargestWorld; world += world < 20 ? 1 : 11) {
    for (Format partials : {Format::kWire, Format::kAccumulator}) {
      for (bool in_place : {false, true}) {
        if (in_place && traits.collective == Collective::kAllToAll) continue;
        const int32_t root = world / 2;
        std::vector<Schedule> schedules;
        for (int32_t rank = 0; rank < world; ++rank) {
          schedules.push_back(
              BuildSchedule(traits.collective, traits.algorithm, partials, rank, world, root));
        }
        Claim claim;
        claim.goal = GoalOf(traits.collective);
        claim.root = root;
        claim.in_place = in_place;
        claim.partials = partials;
        const bool ring = traits.algorithm == Algorithm::kRingWire;
        if (!traits.canonical && !ring) {
          claim.order = Order::kAny;
          claim.most_roundings = world;
        }
        ASSERT_THAT(VerifySchedules(schedules, claim), IsOk()) << "world " << world;
      }
    }
  }
}

TEST_P(BuildScheduleTest, TraitsAreThoseOfTheSchedules) {
  const AlgorithmTraits& traits = GetParam();
  for (int32_t world = 1; world <= kLargestWorld; world += 3) {
    for (int32_t rank = 0; rank < world; ++rank) {
      const Schedule schedule =
          BuildSchedule(traits.collective, traits.algorithm, Format::kAccumulator, rank, world, 0);
      // A rank may do without what the algorithm needs elsewhere; layouts must not depend on it.
      if (schedule.unsliced) {
        EXPECT_TRUE(traits.unsliced);
      }
      if (schedule.equal_blocks) {
        EXPECT_TRUE(traits.equal_blocks);
      }
      if (traits.collective != Collective::kBarrier) {
        EXPECT_EQ(schedule.one_block, traits.one_block);
      }
      const int64_t slots =
          schedule.wire_slots + schedule.accumulator_slots + int64_t{schedule.lane_slots} * world;
      EXPECT_LE(slots, SlotsAllowed(traits.footprint, world)) << "world " << world;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BuildScheduleTest,
                         ::testing::ValuesIn(AllAlgorithms().begin(), AllAlgorithms().end()),
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
