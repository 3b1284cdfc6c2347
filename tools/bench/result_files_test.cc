#include "tools/bench/result_files.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tools/bench/json.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<ResultRow> SomeRows() {
  std::vector<ResultRow> rows(2);
  rows[0].operation = BenchOperation::kReduceScatter;
  rows[0].size_bytes = 1024;
  rows[0].count = 512;
  rows[0].dtype = DType::kBFloat16;
  rows[0].op = ReduceOp::kPremulSum;
  rows[0].out_of_place = HalfResult{.time_us = 12.5, .algbw = 0.5, .wrong = 0, .iterations = 20};
  rows[0].in_place = HalfResult{.time_us = 25, .wrong = 3};
  rows[0].limit_us = 1.5;
  rows[0].timestamp = "2026-01-02 03:04:05";
  rows[1].operation = BenchOperation::kBroadcast;
  rows[1].root = 1;
  rows[1].in_place = HalfResult{.time_us = 7};
  return rows;
}

TEST(ResultFilesTest, JsonHoldsWhatWasMeasured) {
  RunDescription run;
  run.arguments = {"all", "--algo", "a\"b"};
  run.world = 2;
  run.ranks = {"#  Rank  0"};
  const auto json = ReadJson(ToJson(run, SomeRows()));
  ASSERT_OK(json.status());
  EXPECT_EQ(json->at("args.2"), "a\"b");
  EXPECT_EQ(json->at("ranks"), "2");
  EXPECT_EQ(json->at("results.0.type"), "bfloat16");
  EXPECT_EQ(json->at("results.0.redop"), "premul_sum");
  EXPECT_EQ(json->at("results.0.out_of_place.time"), "12.5");
  EXPECT_EQ(json->at("results.0.in_place.nwrong"), "3");
  EXPECT_EQ(json->at("results.1.root"), "1");
  EXPECT_EQ(json->count("results.1.out_of_place.time"), 0);
  EXPECT_EQ(json->at("results.1.in_place.nwrong"), "null");
  EXPECT_EQ(json->at("out_of_bounds.okay"), "false");
  EXPECT_EQ(json->count("bytes_between_hosts"), 0);
  run.bytes_between_hosts = 12345;
  EXPECT_EQ(ReadJson(ToJson(run, SomeRows()))->at("bytes_between_hosts"), "12345");
}

TEST(ResultFilesTest, NoFileHoldsTheEnvironment) {
  setenv("RZ_BENCH_TEST_SECRET", "hunter2", 1);
  EXPECT_THAT(ToJson({}, SomeRows()), Not(HasSubstr("hunter2")));
  EXPECT_THAT(ToCsv(SomeRows()), Not(HasSubstr("hunter2")));
}

TEST(ResultFilesTest, ResultsAreReadBack) {
  const auto rows = ParseResults(ToJson({}, SomeRows()));
  ASSERT_OK(rows.status());
  ASSERT_THAT(*rows, SizeIs(2));
  EXPECT_EQ((*rows)[0].operation, BenchOperation::kReduceScatter);
  EXPECT_EQ((*rows)[0].size_bytes, 1024);
  EXPECT_EQ((*rows)[0].op, ReduceOp::kPremulSum);
  EXPECT_EQ((*rows)[0].out_of_place->time_us, 12.5);
  EXPECT_EQ((*rows)[0].in_place->wrong, 3);
  EXPECT_EQ((*rows)[0].limit_us, 1.5);
  EXPECT_FALSE((*rows)[1].out_of_place.has_value());
  EXPECT_EQ((*rows)[1].op, std::nullopt);
}

TEST(ResultFilesTest, WhatIsNoResultIsRefused) {
  EXPECT_THAT(ParseResults("{}"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ParseResults(R"({"format": "ringzero benchmark", "version": 2})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version 2")));
  EXPECT_THAT(ParseResults(""), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ResultFilesTest, InfinityIsNoNumber) {
  std::vector<ResultRow> rows = SomeRows();
  rows[0].out_of_place->algbw = std::numeric_limits<double>::infinity();
  EXPECT_THAT(ToJson({}, rows), HasSubstr("\"alg_bw\": null"));
}

TEST(ResultFilesTest, CsvHasAsManyFieldsAsNames) {
  const std::vector<std::string> lines = absl::StrSplit(ToCsv(SomeRows()), '\n');
  ASSERT_THAT(lines, SizeIs(5));  // head, three placements, the end
  const std::vector<std::string> names = absl::StrSplit(lines[0], ',');
  for (int i = 1; i < 4; ++i) {
    const std::vector<std::string> fields = absl::StrSplit(lines[i], ',');
    EXPECT_THAT(fields, SizeIs(names.size())) << lines[i];
  }
  EXPECT_THAT(lines[2], HasSubstr("reduce_scatter,1024,512,bfloat16,premul_sum,-1,in_place,25,"));
}

TEST(ResultFilesTest, ResultsAreNotOverwritten) {
  const std::string path = ::testing::TempDir() + "/results.json";
  EXPECT_OK(CheckCreatable(path));
  EXPECT_EQ(FreePath(path), path);  // the check has left nothing
  ASSERT_OK(WriteFile(path, "first"));
  EXPECT_EQ(FreePath(path), path + ".1");
  ASSERT_OK(WriteFile(path + ".1", "second"));
  EXPECT_EQ(FreePath(path), path + ".2");
  EXPECT_OK(CheckCreatable(path));
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "first");
}

TEST(ResultFilesTest, DevicesAndPipesAreWrittenTo) {
  EXPECT_EQ(FreePath("/dev/null"), "/dev/null");
  EXPECT_OK(CheckCreatable("/dev/null"));
  const std::string pipe = ::testing::TempDir() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(FreePath(pipe), pipe);
  EXPECT_OK(CheckCreatable(pipe));  // without waiting for a reader
}

TEST(ResultFilesTest, WhereNothingCanBeWrittenTheReasonIsNamed) {
  EXPECT_THAT(CheckCreatable("/no/such/folder/file"),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("No such file or directory")));
  EXPECT_THAT(WriteFile("/no/such/folder/file", ""),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("/no/such/folder/file")));
}

}  // namespace
}  // namespace rz
