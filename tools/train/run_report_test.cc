#include "tools/train/run_report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

RunReport SomeReport() {
  RunReport report;
  report.config.model = MlpShape{{784, 256, 10}};
  report.config.stage = ZeroStage::kDdp;
  report.memory.shape = {.parameter_elements = 203'530,
                         .padding_elements = 22,
                         .world = 4,
                         .stage = ZeroStage::kDdp,
                         .dtype = DType::kBFloat16};
  report.memory.measured = {407'104, 407'104, 814'208, 814'208, 814'208};
  report.memory.other = {
      OtherMemory{MemoryTag::kBucket, 1, 2},     OtherMemory{MemoryTag::kAccumulator, 9, 10},
      OtherMemory{MemoryTag::kGathered, 11, 12}, OtherMemory{MemoryTag::kScratch, 3, 4},
      OtherMemory{MemoryTag::kActivation, 5, 6}, OtherMemory{MemoryTag::kOther, 7, 8}};
  report.transport = "ucx \"1.13\"";
  report.losses = {2.5, NAN};
  report.epochs = {{.loss = 0.5, .test = {.loss = 0.25, .accuracy = 0.75}}};
  report.breakdown.rows[kHiddenRow] = {.mean = 1.5, .min = 1, .max = 2, .max_rank = 3};
  report.process_memory.emplace().pss_peak = {.mean = 2.5, .max = 3, .max_rank = 1};
  report.weights_crc32c = 0xabc;
  return report;
}

TEST(RunReportTest, Json_HasWhatWasMeasured) {
  const std::string json = ToJson(SomeReport());
  // For other readers numbers are numbers, zeros included.
  EXPECT_THAT(json,
              AllOf(HasSubstr("\"transport\": \"ucx \\\"1.13\\\"\""),
                    HasSubstr("\"master_bytes\": 814208"), HasSubstr("\"steps\": 0"),
                    HasSubstr("\"test_accuracy\": 0.75"), HasSubstr("\"test_loss\": 0.25"),
                    ContainsRegex("\"pss_peak\": \\{[ \n]+\"mean_bytes\": 2.5,[ \n]+"
                                  "\"max_bytes\": 3,[ \n]+\"max_rank\": 1"),
                    ContainsRegex("\"part\": \"hidden communication\",[ \n]+\"mean_ms\": 1.5,[ \n]+"
                                  "\"min_ms\": 1,[ \n]+\"max_ms\": 2,[ \n]+\"max_rank\": 3")));
  ASSERT_OK_AND_ASSIGN(const ReferenceRun run, ParseReference(json));
  EXPECT_EQ(run.losses.size(), 2u);
  EXPECT_EQ(run.losses[0], 2.5);
  EXPECT_TRUE(std::isnan(run.losses[1]));
  EXPECT_EQ(run.memory.other[2].peak, 12);
  EXPECT_EQ(run.memory.other[3].peak, 4);
  EXPECT_EQ(run.weights_crc32c, "00000ABC");
}

TEST(RunReportTest, Json_HoldsTheLargestCounts) {
  RunReport report = SomeReport();
  report.memory.shape.parameter_elements = int64_t{1} << 53;
  ASSERT_OK_AND_ASSIGN(const ReferenceRun run, ParseReference(ToJson(report)));
  EXPECT_EQ(run.memory.shape.parameter_elements, int64_t{1} << 53);
}

TEST(RunReportTest, Reference_ReadsWhatTheFirstVersionWrote) {
  ASSERT_OK_AND_ASSIGN(const ReferenceRun run, ReadReference("tests/data/training_report_v1.json"));
  EXPECT_EQ(run.model, "20-8-5");
  const ModelShape& shape = run.memory.shape;
  EXPECT_EQ(shape.stage, ZeroStage::kDdp);
  EXPECT_EQ(shape.dtype, DType::kBFloat16);
  EXPECT_EQ(shape.world, 1);
  EXPECT_EQ(shape.parameter_elements, 213);
  EXPECT_EQ(shape.padding_elements, 75);
  EXPECT_THAT(*run.memory.measured, ::testing::ElementsAre(576, 576, 1152, 1152, 1152));
  EXPECT_EQ(run.memory.other[4].peak, 52'040);
}

TEST(RunReportTest, Reference_ReadsBackTheMemory) {
  const RunReport report = SomeReport();
  ASSERT_OK_AND_ASSIGN(const ReferenceRun run, ParseReference(ToJson(report)));
  EXPECT_EQ(run.model, "784-256-10");
  EXPECT_EQ(RenderMemoryTable({run.memory}), RenderMemoryTable({report.memory}));
  EXPECT_EQ(run.memory.shape.padding_elements, 22);
}

TEST(RunReportTest, Reference_ReadsBackWhatIsFrozenAndTheGradientsDType) {
  RunReport report = SomeReport();
  report.memory.shape.frozen_elements = 100;
  report.memory.shape.frozen_padding_elements = 28;
  report.memory.shape.gradient_dtype = DType::kFloat32;
  ASSERT_OK_AND_ASSIGN(const ReferenceRun run, ParseReference(ToJson(report)));
  EXPECT_EQ(RenderMemoryTable({run.memory}), RenderMemoryTable({report.memory}));
  EXPECT_EQ(run.memory.shape.frozen_padding_elements, 28);
}

TEST(RunReportTest, Reference_ReadsBackTheGroups) {
  RunReport report = SomeReport();
  report.memory.shape.stage = ZeroStage::kTwo;
  report.memory.shape.world = 2;
  report.memory.shape.groups = 3;
  ASSERT_OK_AND_ASSIGN(const ReferenceRun run, ParseReference(ToJson(report)));
  EXPECT_EQ(RenderMemoryTable({run.memory}), RenderMemoryTable({report.memory}));
  EXPECT_THAT(RenderMemoryTable({run.memory}), HasSubstr("6 ranks in groups of 2"));
}

TEST(RunReportTest, WhatIsNoReport_SaysWhy) {
  const std::string json = ToJson(SomeReport());
  const auto with = [&](const char* from, const char* to) {
    return ParseReference(absl::StrReplaceAll(json, {{from, to}}));
  };
  EXPECT_THAT(ParseReference("{}"), StatusIs(kInvalidArgument, HasSubstr("\"format\"")));
  EXPECT_THAT(ParseReference("hello"),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("no report of rz_train: "),
                                               ::testing::Not(HasSubstr("\n")))));
  EXPECT_THAT(ParseReference(std::string(100'000, '[')), StatusIs(kInvalidArgument));
  EXPECT_THAT(with("\"version\": 1", "\"version\": 0"),
              StatusIs(kInvalidArgument, HasSubstr("version 0")));
  EXPECT_THAT(with("\"version\": 1", "\"version\": \"one\""),
              StatusIs(kInvalidArgument, HasSubstr("version")));
  EXPECT_THAT(with("\"master_bytes\": 814208", "\"master_bytes\": 0.5"),
              StatusIs(kInvalidArgument, HasSubstr("0.5")));
  EXPECT_THAT(with("\"scratch\"", "\"itch\""),
              StatusIs(kInvalidArgument, HasSubstr("memory.other.scratch")));
  EXPECT_THAT(with("\"version\": 1", "\"version\": 2"),
              StatusIs(kInvalidArgument, HasSubstr("version 2")));
  EXPECT_THAT(with("training report", "shopping list"),
              StatusIs(kInvalidArgument, HasSubstr("shopping list")));
  EXPECT_THAT(with("\"stage\": \"ddp\"", "\"stage\": \"9\""),
              StatusIs(kInvalidArgument, HasSubstr("\"9\"")));
  EXPECT_THAT(with("\"master_bytes\": 814208", "\"master_bytes\": -1"),
              StatusIs(kInvalidArgument, HasSubstr("memory.master_bytes")));
  EXPECT_THAT(with("\"groups\": 1", "\"groups\": 0"),
              StatusIs(kInvalidArgument, HasSubstr("memory.groups")));
  EXPECT_THAT(with("master_bytes", "slave_bytes"),
              StatusIs(kInvalidArgument, HasSubstr("memory.master_bytes")));
}

TEST(RunReportTest, DamagedText_NeverCrashes) {
  const std::string valid = ToJson(SomeReport());
  for (uint64_t round = 0; round < 2'000; ++round) {
    const RandomStream random(round, 0);
    std::string text = valid.substr(0, random.Below(0, valid.size() + 1));
    for (uint64_t i = 0; i < 3 && !text.empty(); ++i) {
      text[random.Below(2 * i + 1, text.size())] = static_cast<char>(random.Below(2 * i + 2, 256));
    }
    (void)ParseReference(text);
  }
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
  ReferenceRun other = run;
  other.memory.shape.groups = 2;
  EXPECT_THAT(CheckReference(other, config, 4),
              StatusIs(kInvalidArgument, HasSubstr("number of ranks was 8")));
  other.memory.shape = {.world = 2, .groups = 2, .stage = ZeroStage::kTwo};
  EXPECT_THAT(CheckReference(other, config, 4),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("stage was 2"), HasSubstr("ddp"))));
  config.dtype = DType::kFloat32;
  EXPECT_THAT(CheckReference(run, config, 4), StatusIs(kInvalidArgument, HasSubstr("dtype")));
  config.dtype = DType::kBFloat16;
  config.model = MlpShape{{784, 9, 10}};
  EXPECT_THAT(CheckReference(run, config, 4), StatusIs(kInvalidArgument, HasSubstr("784-9-10")));
}

}  // namespace
}  // namespace rz
