#include "tools/bench/table.h"

#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ResultRow SomeRow() {
  ResultRow row;
  row.operation = BenchOperation::kAllReduce;
  row.size_bytes = 1048576;
  row.count = 262144;
  row.op = ReduceOp::kSum;
  row.out_of_place = HalfResult{.time_us = 123.456, .wrong = 0};
  SetBandwidths(row.operation, 4, row.size_bytes, *row.out_of_place);
  row.in_place = HalfResult{.time_us = 1234567.8, .wrong = 12};
  SetBandwidths(row.operation, 4, row.size_bytes, *row.in_place);
  return row;
}

TEST(FormatNumberTest, DecimalsGiveWayToTheWidth) {
  EXPECT_EQ(FormatNumber(0, 7), "0.00");
  EXPECT_EQ(FormatNumber(0.296, 7), "0.30");
  EXPECT_EQ(FormatNumber(1234.567, 7), "1234.57");
  EXPECT_EQ(FormatNumber(12345.67, 7), "12345.7");
  EXPECT_EQ(FormatNumber(1234567.8, 7), "1234568");
  EXPECT_EQ(FormatNumber(12345678.9, 7), "1.2e+07");
  EXPECT_EQ(FormatNumber(12345678.9, 6), "1e+07");
}

TEST(TableTest, ARowHasTheWidthsOfNcclTests) {
  EXPECT_EQ(TableRow(SomeRow(), {}),
            "     1048576        262144     float     sum      -1"
            "   123.46    8.49   12.74       0"
            "  1234568    0.00    0.00      12");
}

TEST(TableTest, HeaderAndRowsAreOfOneWidth) {
  for (const TableColumns& columns :
       {TableColumns{}, TableColumns{.cpu_time = true, .per_iteration = true},
        TableColumns{.percentiles = true, .limit = true},
        TableColumns{.per_iteration = true, .percentiles = true, .timestamps = true}}) {
    ResultRow row = SomeRow();
    row.limit_us = 3;
    row.timestamp = "2026-01-02 03:04:05";
    const std::vector<std::string> lines = absl::StrSplit(TableHeader(columns), '\n');
    ASSERT_EQ(lines.size(), 3);
    for (const std::string& line : lines) EXPECT_EQ(line[0], '#');
    EXPECT_EQ(lines[1].size(), TableRow(row, columns).size());
    row.in_place.reset();
    row.limit_us.reset();
    EXPECT_EQ(lines[1].size(), TableRow(row, columns).size());
  }
}

TEST(TableTest, WhatWasNotMeasuredOrCheckedIsNotAvailable) {
  ResultRow row = SomeRow();
  row.op.reset();
  row.root = 2;
  row.out_of_place.reset();
  row.in_place->wrong = -1;
  const std::string line = TableRow(row, {});
  EXPECT_THAT(line, HasSubstr("float    none       2      N/A     N/A     N/A     N/A  1234568"));
  EXPECT_THAT(line, ::testing::EndsWith("    0.00    0.00     N/A"));
}

TEST(TableTest, TheLongestNamesFit) {
  for (DType dtype : kAllDTypes) EXPECT_LE(TableName(dtype).size(), 8);
  for (ReduceOp op : kAllReduceOps) EXPECT_LE(TableName(op).size(), 6);
  // And parse back.
  for (DType dtype : kAllDTypes) EXPECT_EQ(ParseDType(TableName(dtype)), dtype);
  for (ReduceOp op : kAllReduceOps) EXPECT_EQ(ParseReduceOp(TableName(op)), op);
}

TEST(TableTest, TheFooterSaysFailedForOneWrongElement) {
  EXPECT_THAT(TableFooter(SummarizeRows({SomeRow()})),
              HasSubstr("# Out of bounds values : 12 FAILED\n# Avg bus bandwidth    : 6.37"));
  EXPECT_THAT(TableFooter(SummarizeRows({})),
              HasSubstr("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n"));
}

TEST(ResultsTest, TheSummaryGoesByPlacementAndSize) {
  std::vector<ResultRow> rows(3);
  rows[0].size_bytes = 8;
  rows[0].out_of_place = HalfResult{.busbw = 1};
  rows[0].in_place = HalfResult{.busbw = 3, .wrong = 2};
  rows[1].size_bytes = 1 << 20;
  rows[1].in_place = HalfResult{.busbw = 8, .wrong = 0};
  rows[2].size_bytes = 2 << 20;  // nothing measured
  const ResultSummary summary = SummarizeRows(rows);
  EXPECT_EQ(summary.wrong, 2);
  EXPECT_DOUBLE_EQ(summary.average_busbw, 4);
  EXPECT_EQ(summary.small, 2);
  EXPECT_EQ(summary.middle, 8);
  EXPECT_EQ(summary.large, std::nullopt);
  EXPECT_THAT(TableFooter(summary), HasSubstr("to 32 KiB 2  to 1 MiB 8"));
  EXPECT_THAT(TableFooter(summary), Not(HasSubstr("above")));
}

TEST(ResultsTest, GigabytesAreBillions) {
  HalfResult half{.time_us = 1000};
  SetBandwidths(BenchOperation::kReduceScatter, 2, 1'000'000'000, half);
  EXPECT_DOUBLE_EQ(half.algbw, 1000);
  EXPECT_DOUBLE_EQ(half.busbw, 500);
}

}  // namespace
}  // namespace rz
