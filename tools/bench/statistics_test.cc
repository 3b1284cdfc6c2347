#include "tools/bench/statistics.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(StatisticsTest, PercentilesAreMeasuredValues) {
  std::vector<double> sorted(100);
  std::iota(sorted.begin(), sorted.end(), 1);
  EXPECT_EQ(Percentile(sorted, 50), 50);
  EXPECT_EQ(Percentile(sorted, 99), 99);
  EXPECT_EQ(Percentile(sorted, 99.5), 100);
  EXPECT_EQ(Percentile(sorted, 100), 100);
  EXPECT_EQ(Percentile(sorted, 0.1), 1);
  EXPECT_EQ(Percentile({}, 50), 0);
  const double one[] = {7};
  EXPECT_EQ(Percentile(one, 50), 7);
}

TEST(StatisticsTest, SummaryOfUnsortedSamples) {
  const SampleStatistics statistics = Summarize({4, 1, 3, 2});
  EXPECT_EQ(statistics.min, 1);
  EXPECT_EQ(statistics.p50, 2);
  EXPECT_EQ(statistics.p90, 4);
  EXPECT_EQ(statistics.p99, 4);
  EXPECT_EQ(statistics.max, 4);
  EXPECT_EQ(statistics.mean, 2.5);
  EXPECT_NEAR(statistics.variation_percent, 100 * 1.118034 / 2.5, 1e-4);
}

TEST(StatisticsTest, NoSamplesAreZeros) {
  EXPECT_EQ(Summarize({}).max, 0);
  EXPECT_EQ(Summarize({0, 0}).variation_percent, 0);
}

TEST(StatisticsTest, RanksAreCombinedAsAsked) {
  const double values[] = {3, 1, 8};
  EXPECT_EQ(CombineRanks(values, RankAverage::kRankZero), 3);
  EXPECT_EQ(CombineRanks(values, RankAverage::kMean), 4);
  EXPECT_EQ(CombineRanks(values, RankAverage::kMin), 1);
  EXPECT_EQ(CombineRanks(values, RankAverage::kMax), 8);
}

}  // namespace
}  // namespace rz
