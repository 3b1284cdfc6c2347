#include "tools/train/run_report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/train/flat_json.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

RunReport SomeReport() {
  RunReport report;
  report.config.model = MlpShape{{784, 256, 10}};
  report.config.stage = ZeroStage::kDdp;
  report.memory.shape = {203'530, 22, 4, ZeroStage::kDdp, DType::kBFloat16};
  report.memory.measured = {407'104, 407'104, 814'208, 814'208, 814'208};
  report.memory.other = {
      OtherMemory{MemoryTag::kBucket, 1, 2}, OtherMemory{MemoryTag::kScratch, 3, 4},
      OtherMemory{MemoryTag::kActivation, 5, 6}, OtherMemory{MemoryTag::kOther, 7, 8}};
  report.transport = "ucx \"1.13\"";
  report.losses = {2.5, NAN};
  report.epochs = {{0.5, 0.75}};
  report.weights_crc32c = 0xabc;
  return report;
}

TEST(RunReportTest, Json_HasWhatWasMeasured) {
  ASSERT_OK_AND_ASSIGN(const FlatJson json, ParseFlatJson(ToJson(SomeReport())));
  EXPECT_EQ(json.at("model"), "784-256-10");
  EXPECT_EQ(json.at("transport"), "ucx \"1.13\"");
  EXPECT_EQ(json.at("losses.0"), "2.5");
  EXPECT_EQ(json.at("losses.1"), "null");
  EXPECT_EQ(json.at("epochs.0.test_accuracy"), "0.75");
  EXPECT_EQ(json.at("memory.master_bytes"), "814208");
  EXPECT_EQ(json.at("weights_crc32c"), "00000ABC");
}

TEST(RunReportTest, Reference_ReadsBackTheMemory) {
  const RunReport report = SomeReport();
  ASSERT_OK_AND_ASSIGN(const ReferenceRun run, ParseReference(ToJson(report)));
  EXPECT_EQ(run.model, "784-256-10");
  EXPECT_EQ(RenderMemoryTable({run.memory}), RenderMemoryTable({report.memory}));
  EXPECT_EQ(run.memory.shape.padding_elements, 22);
}

TEST(RunReportTest, WhatIsNoReport_SaysWhy) {
  const std::string json = ToJson(SomeReport());
  const auto with = [&](const char* from, const char* to) {
    return ParseReference(absl::StrReplaceAll(json, {{from, to}}));
  };
  EXPECT_THAT(ParseReference("{}"), StatusIs(kInvalidArgument, HasSubstr("\"format\"")));
  EXPECT_THAT(ParseReference("hello"), StatusIs(kInvalidArgument, HasSubstr("at byte 0")));
  EXPECT_THAT(with("\"version\": 1", "\"version\": 2"),
              StatusIs(kInvalidArgument, HasSubstr("version 2")));
  EXPECT_THAT(with("training report", "shopping list"),
              StatusIs(kInvalidArgument, HasSubstr("shopping list")));
  EXPECT_THAT(with("\"stage\": \"ddp\"", "\"stage\": \"9\""),
              StatusIs(kInvalidArgument, HasSubstr("\"9\"")));
  EXPECT_THAT(with("\"master_bytes\": 814208", "\"master_bytes\": -1"),
              StatusIs(kInvalidArgument, HasSubstr("memory.master_bytes")));
  EXPECT_THAT(with("master_bytes", "slave_bytes"),
              StatusIs(kInvalidArgument, HasSubstr("memory.master_bytes")));
}

TEST(RunReportTest, WritesAndReadsAFile) {
  const std::string path = ::testing::TempDir() + "/report.json";
  EXPECT_OK(WriteReport(SomeReport(), path));
  EXPECT_OK(ReadReference(path));
  EXPECT_THAT(WriteReport(SomeReport(), "/nowhere/report.json"),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("/nowhere/report.json")));
  EXPECT_THAT(ReadReference("/nowhere/report.json"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ReadReference(::testing::TempDir()),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("Is a directory")));
}

TEST(RunReportTest, OnlyLikeRunsAreCompared) {
  RunReport report = SomeReport();
  ASSERT_OK_AND_ASSIGN(const ReferenceRun run, ParseReference(ToJson(report)));
  TrainConfig& config = report.config;
  config.reference_path = "r.json";
  config.stage = ZeroStage::kOne;
  EXPECT_OK(CheckReference(run, config, 4));
  EXPECT_THAT(
      CheckReference(run, config, 3),
      StatusIs(kInvalidArgument,
               AllOf(HasSubstr("r.json"), HasSubstr("number of ranks was 4"), HasSubstr("is 3"))));
  config.dtype = DType::kFloat32;
  EXPECT_THAT(CheckReference(run, config, 4), StatusIs(kInvalidArgument, HasSubstr("dtype")));
  config.dtype = DType::kBFloat16;
  config.model.widths[1] = 9;
  EXPECT_THAT(CheckReference(run, config, 4), StatusIs(kInvalidArgument, HasSubstr("784-9-10")));
}

}  // namespace
}  // namespace rz
