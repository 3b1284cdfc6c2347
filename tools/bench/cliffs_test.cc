#include "tools/bench/cliffs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rz {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ResultRow Row(int64_t bytes, double us, double in_place_us) {
  ResultRow row;
  row.size_bytes = bytes;
  row.out_of_place = HalfResult{.time_us = us};
  row.in_place = HalfResult{.time_us = in_place_us};
  return row;
}

TEST(CliffsTest, WhatFollowsItsNeighboursIsNone) {
  // Flat, then in proportion: a bend of the usual kind.
  std::vector<ResultRow> rows;
  for (int64_t bytes = 8; bytes <= 1 << 24; bytes *= 2) {
    const double us = 1 + static_cast<double>(bytes) / 10000;
    rows.push_back(Row(bytes, us, us / 2));
  }
  EXPECT_THAT(FindCliffs(rows, 1.1), IsEmpty());
  EXPECT_EQ(CliffsText({}, 1.5),
            "# Cliffs (above 1.5 times the trend of their neighbours, measured again): none");
}

TEST(CliffsTest, FindsTheSizeThatCostsMore) {
  const std::vector<ResultRow> rows = {Row(1024, 1, 1), Row(2048, 2, 3.2), Row(4096, 4, 4),
                                       Row(8192, 13, 8), Row(16384, 16, 16)};
  const std::vector<Cliff> cliffs = FindCliffs(rows, 1.5);
  ASSERT_THAT(cliffs, SizeIs(2));
  EXPECT_EQ(cliffs[0].row, &rows[3]);
  EXPECT_FALSE(cliffs[0].in_place);
  EXPECT_NEAR(cliffs[0].expected_us, 8, 1e-9);
  EXPECT_NEAR(cliffs[0].ratio, 13.0 / 8, 1e-9);
  EXPECT_EQ(cliffs[1].row, &rows[1]);
  EXPECT_TRUE(cliffs[1].in_place);
  EXPECT_THAT(CliffsText(cliffs, 1.5), HasSubstr("8192 B out of place: 13.00 us, 1.63 times"));
}

TEST(CliffsTest, TheFasterMeasurementOfEachHalfCounts) {
  ResultRow row = Row(2048, 9, 2);
  TakeFaster(row, Row(2048, 2, 3));
  EXPECT_EQ(row.out_of_place->time_us, 2);
  EXPECT_EQ(row.in_place->time_us, 2);
  ResultRow half = Row(2048, 1, 1);
  half.in_place.reset();
  TakeFaster(row, half);
  EXPECT_EQ(row.out_of_place->time_us, 1);
  EXPECT_EQ(row.in_place->time_us, 2);
}

TEST(CliffsTest, NeighboursMayBeAnywhere) {
  // 3072 lies between 2048 and 4096 as the logarithm has it.
  EXPECT_THAT(FindCliffs({Row(2048, 2, 2), Row(3072, 3, 3), Row(4096, 4, 4)}, 1.01), IsEmpty());
  EXPECT_THAT(FindCliffs({Row(2048, 2, 2), Row(3072, 3.2, 3), Row(4096, 4, 4)}, 1.01), SizeIs(1));
}

TEST(CliffsTest, RowsOfOtherKindsAreNoNeighbours) {
  std::vector<ResultRow> rows = {Row(1024, 1, 1), Row(2048, 9, 9), Row(4096, 4, 4)};
  rows[2].dtype = DType::kBFloat16;
  EXPECT_THAT(FindCliffs(rows, 1.5), IsEmpty());
  rows[2].dtype = rows[1].dtype;
  rows[0].size_bytes = 0;  // has no logarithm
  EXPECT_THAT(FindCliffs(rows, 1.5), IsEmpty());
}

TEST(CliffsTest, TheMedianCountsWhereThereIsOne) {
  std::vector<ResultRow> rows = {Row(1024, 1, 1), Row(2048, 9, 2), Row(4096, 4, 4)};
  rows[1].out_of_place->samples_us.p50 = 2;  // one slow call made the mean
  EXPECT_THAT(FindCliffs(rows, 1.5), IsEmpty());
  rows[1].in_place.reset();
  EXPECT_THAT(FindCliffs(rows, 1.5), IsEmpty());
}

}  // namespace
}  // namespace rz
