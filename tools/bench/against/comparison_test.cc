#include "tools/bench/against/comparison.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tools/bench/json.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr ComparedPoint kSmall = {BenchOperation::kAllReduce, false, 8};
constexpr ComparedPoint kLarge = {BenchOperation::kAllReduce, false, 1 << 20};

Comparison Some() {
  Comparison comparison({{"ringzero", ContenderKind::kOwn, {"as it is"}},
                         {"fast", ContenderKind::kRival, {"one", "two"}},
                         {"slow-default", ContenderKind::kReference, {"out of the box"}}});
  // The machine is twice as slow in round 1.
  for (int round : {0, 1, 2}) {
    const double slow = round == 1 ? 2 : 1;
    comparison.Add(0, 0, round, kSmall, 10 * slow);
    comparison.Add(1, 0, round, kSmall, 30 * slow);
    comparison.Add(1, 1, round, kSmall, 25 * slow);
    comparison.Add(2, 0, round, kSmall, 5 * slow);
    comparison.Add(0, 0, round, kLarge, 100 * slow);
    comparison.Add(1, 0, round, kLarge, 90 * slow);
  }
  return comparison;
}

TEST(ComparisonTest, RatiosAreOfOneRoundAndTheFastestSettingCounts) {
  const Comparison comparison = Some();
  const auto fast = comparison.At(1, kSmall);
  ASSERT_TRUE(fast.has_value());
  EXPECT_EQ(fast->time_us, 25);
  EXPECT_EQ(fast->setting, 1);
  EXPECT_DOUBLE_EQ(fast->ratio, 2.5);
  EXPECT_EQ(comparison.At(0, kSmall)->ratio, 1);
  EXPECT_FALSE(comparison.At(2, kLarge).has_value());
}

TEST(ComparisonTest, OnlyRivalsAreTheBest) {
  const Comparison comparison = Some();
  size_t best = 0;
  EXPECT_EQ(comparison.Best(kSmall, &best)->time_us, 25);
  EXPECT_EQ(best, 1);
}

TEST(ComparisonTest, MedianIsTheMiddle) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
}

TEST(ComparisonTest, TheTableSaysWhoWasBestAndWhereWeAreWeakest) {
  const std::string table = ComparisonTable(Some(), BenchOperation::kAllReduce, false);
  const std::vector<std::string> lines = absl::StrSplit(table, '\n');
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_THAT(lines[0], HasSubstr("# all_reduce, float sum, out of place"));
  EXPECT_THAT(lines[2], AllOf(HasSubstr("25.00b    2.50"), HasSubstr("5.00     0.50"),
                              ::testing::EndsWith("  fast")));
  EXPECT_THAT(lines[3], AllOf(HasSubstr("90.00a    0.90"), HasSubstr("N/A")));
  EXPECT_EQ(lines[4], "# best peer / ringzero: mean 1.50, least 0.90 at 1048576 B");
  EXPECT_EQ(ComparisonTable(Some(), BenchOperation::kAllReduce, true), "");
  EXPECT_EQ(ComparisonTable(Some(), BenchOperation::kReduce, false), "");
}

TEST(ComparisonTest, EachOfOursIsSummedUp) {
  Comparison comparison({{"ringzero", ContenderKind::kOwn, {"plain"}},
                         {"registered", ContenderKind::kOwn, {"registered"}},
                         {"peer", ContenderKind::kRival, {"best"}}});
  comparison.Add(0, 0, 0, kSmall, 10);
  comparison.Add(1, 0, 0, kSmall, 5);
  comparison.Add(2, 0, 0, kSmall, 20);
  EXPECT_THAT(ComparisonTable(comparison, BenchOperation::kAllReduce, false),
              AllOf(HasSubstr("# best peer / ringzero: mean 2.00, least 2.00 at 8 B\n"),
                    HasSubstr("# best peer / registered: mean 4.00, least 4.00 at 8 B\n")));
}

TEST(ComparisonTest, ColumnsStandBelowTheirNames) {
  const std::vector<std::string> lines =
      absl::StrSplit(ComparisonTable(Some(), BenchOperation::kAllReduce, false), '\n');
  EXPECT_EQ(lines[1].find("  best"), lines[2].find("  fast"));
}

TEST(ComparisonTest, SettingsAreListed) {
  EXPECT_THAT(SettingLines(Some()),
              ElementsAre("# ringzero a: as it is", "# fast a: one", "# fast b: two",
                          "# slow-default a: out of the box"));
}

TEST(ComparisonTest, FilesHoldEveryContender) {
  const std::string csv = ComparisonCsv(Some());
  EXPECT_THAT(csv, AllOf(HasSubstr("all_reduce,out_of_place,8,fast,\"two\",25,2.5\n"),
                         HasSubstr("slow-default"), Not(HasSubstr("in_place,1048576,slow"))));
  const auto json = ReadJson(ComparisonJson(Some(), {"all", "a\"b"}, 2, 3));
  ASSERT_OK(json.status());
  EXPECT_EQ(json->at("results.1.contender"), "fast");
  EXPECT_EQ(json->at("results.1.ratio"), "2.5");
  EXPECT_EQ(json->at("args.1"), "a\"b");
}

}  // namespace
}  // namespace rz
