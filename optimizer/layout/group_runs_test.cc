#include "optimizer/layout/group_runs.h"

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "optimizer/layout/flat_layout.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

FlatLayout Layout(std::vector<ParamSpec> specs) {
  auto layout = FlatLayout::Create(std::move(specs), 64);
  EXPECT_OK(layout.status());
  return *std::move(layout);
}

// Group of each element of `flat`.
std::vector<size_t> GroupsIn(const GroupRuns& runs, Range flat) {
  std::vector<size_t> groups;
  runs.ForEach(flat, [&](int64_t offset, int64_t count, size_t group) {
    EXPECT_EQ(offset, static_cast<int64_t>(groups.size()));
    EXPECT_GT(count, 0);
    groups.insert(groups.end(), static_cast<size_t>(count), group);
  });
  EXPECT_EQ(static_cast<int64_t>(groups.size()), flat.count);
  return groups;
}

TEST(GroupRunsTest, NeighboursOfOneGroupAreOneRun) {
  EXPECT_EQ(GroupRuns(Layout({{"a", {7}, 0, 1}, {"b", {40}, 1, 1}, {"c", {3}, 1, 1}})).size(), 1u);
  EXPECT_EQ(GroupRuns(Layout({{"a", {7}, 0, 0}, {"b", {0}, 0, 1}, {"c", {3}, 0, 0}})).size(), 1u);
  EXPECT_EQ(GroupRuns(Layout({{"a", {7}, 0, 0}, {"b", {1}, 0, 1}, {"c", {3}, 0, 0}})).size(), 3u);
}

TEST(GroupRunsTest, AModelWithoutElementsIsOfTheFirstGroup) {
  EXPECT_THAT(GroupsIn(GroupRuns(Layout({})), {0, 2}), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(GroupsIn(GroupRuns(Layout({{"a", {0}, 0, 3}})), {0, 1}), ::testing::ElementsAre(0));
}

TEST(GroupRunsTest, EveryElementIsOfItsParametersGroup) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<ParamSpec> specs(random() % 9);
    for (size_t i = 0; i < specs.size(); ++i) {
      specs[i] = {absl::StrCat("p", i), {static_cast<int64_t>(random() % 100)}, 0, random() % 3};
      if (i > 0) specs[i].unit = specs[i - 1].unit + static_cast<int>(random() % 2);
    }
    const FlatLayout layout = Layout(specs);
    const GroupRuns runs(layout);
    const int64_t end = layout.flat_elements();
    for (int piece = 0; piece < 20; ++piece) {
      const int64_t from = static_cast<int64_t>(random() % static_cast<uint64_t>(end + 1));
      const Range flat = {from,
                          static_cast<int64_t>(random() % static_cast<uint64_t>(end - from + 1))};
      const std::vector<size_t> groups = GroupsIn(runs, flat);
      for (size_t i = 0; i < groups.size(); ++i) {
        const std::optional<size_t> parameter = layout.Find(from + static_cast<int64_t>(i));
        if (!parameter) continue;
        ASSERT_EQ(groups[i], layout.spec(*parameter).group) << "round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace rz
