#include "collectives/hierarchy/host_map.h"

#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

using ::testing::ElementsAre;

// reaches[r] are the ranks that r reaches.
std::optional<HostMap> From(const std::vector<std::vector<int>>& reaches) {
  std::vector<HostMap::Reach> told;
  for (const std::vector<int>& ranks : reaches) {
    std::vector<bool> reached(reaches.size());
    for (int rank : ranks) reached[static_cast<size_t>(rank)] = true;
    told.push_back(HostMap::ReachOf(reached));
  }
  return HostMap::FromReaches(told);
}

TEST(HostMapTest, ConsecutiveRanksOfEqualHosts) {
  EXPECT_EQ(HostMap({0, 0, 1, 1}).ranks_of_each(), 2);
  EXPECT_EQ(HostMap({7, 7, 7}).ranks_of_each(), 3);
  EXPECT_EQ(HostMap({0, 1, 2}).ranks_of_each(), 1);
  EXPECT_EQ(HostMap({0, 1, 0, 1}).ranks_of_each(), 0);
  EXPECT_EQ(HostMap({0, 0, 0, 1}).ranks_of_each(), 0);
}

TEST(HostMapTest, HostsAndColumnsAreInTheOrderOfRanks) {
  const HostMap map({7, 3, 7, 7, 3});
  EXPECT_EQ(map.hosts(), 2);
  EXPECT_EQ(map.columns(), 2);
  EXPECT_EQ(map.largest_host(), 3);
  EXPECT_THAT(map.RanksOf(0), ElementsAre(0, 2, 3));
  EXPECT_THAT(map.RanksOf(1), ElementsAre(1, 4));
  EXPECT_THAT(map.Column(1), ElementsAre(2, 4));
  EXPECT_EQ(map.HostOf(3), 0);
  EXPECT_EQ(map.IndexOf(3), 2);
}

TEST(HostMapTest, AHierarchyHasSeveralHostsAndOneWithSeveralRanks) {
  EXPECT_TRUE(HostMap({0, 1, 1}).is_hierarchy());
  EXPECT_FALSE(HostMap({0, 0, 0}).is_hierarchy());
  EXPECT_FALSE(HostMap({0, 1, 2}).is_hierarchy());
}

TEST(HostMapTest, RanksThatReachEachOtherAreOneHost) {
  const auto map = From({{0, 2}, {1, 3, 4}, {0, 2}, {1, 3, 4}, {1, 3, 4}});
  ASSERT_TRUE(map.has_value());
  EXPECT_THAT(map->RanksOf(0), ElementsAre(0, 2));
  EXPECT_THAT(map->RanksOf(1), ElementsAre(1, 3, 4));
  ASSERT_TRUE(From({{0}, {1}}).has_value());
  EXPECT_EQ(From({{0, 1}, {0, 1}})->hosts(), 1);
}

TEST(HostMapTest, WhatIsNoDivisionIsNoMap) {
  EXPECT_FALSE(From({{0, 1}, {1}}).has_value());                     // one way
  EXPECT_FALSE(From({{0, 1}, {0, 1, 2}, {1, 2}}).has_value());       // not on to the third
  EXPECT_FALSE(From({{0, 1}, {0, 2}, {0, 1}}).has_value());          // as many, others
  EXPECT_FALSE(From({{0, 1}, {0, 1}, {2, 3}, {2, 1}}).has_value());  // across
}

}  // namespace
}  // namespace rz
