#include "tools/train/config_file.h"

#include <cstdio>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kConfig[] = R"({
  "train_batch_size": 64, "steps_per_print": 50, "wall_clock_breakdown": true, "gradient_clipping": 0.5,
  "optimizer": {"type": "SGD", "params": {"lr": 0.25, "momentum": 0.9}},
  "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 90}},
  "fp16": {"enabled": true, "initial_scale_power": 4},
  "zero_optimization": {"stage": 0, "reduce_bucket_size": 1e6}})";

// rz_train's flags on 4 ranks, with a file that has `json`.
absl::StatusOr<TrainConfig> Read(const std::string& json, std::vector<std::string> arguments) {
  const std::string path = ::testing::TempDir() + "/config.json";
  FILE* const file = std::fopen(path.c_str(), "w");
  std::fwrite(json.data(), 1, json.size(), file);
  std::fclose(file);
  arguments.push_back("--config=" + path);
  FlagSet flags("rz_train", "");
  TrainFlags train_flags;
  train_flags.Declare(&flags);
  RZ_RETURN_IF_ERROR(flags.Parse(arguments));
  return train_flags.Read(flags, "", 4);
}

TEST(ConfigFileTest, IsTakenWhereNoFlagIsGiven) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig config, Read(kConfig, {}));
  EXPECT_EQ(config.stage, ZeroStage::kDdp);
  EXPECT_EQ(config.dtype, DType::kFloat16);
  EXPECT_EQ(config.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(config.optimizer.learning_rate, 0.25);
  EXPECT_EQ(config.optimizer.momentum, 0.9);
  EXPECT_EQ(config.schedule.kind, ScheduleKind::kWarmupCosine);
  EXPECT_EQ(config.schedule.total_steps, 90);
  EXPECT_EQ(config.clip, 0.5);
  EXPECT_TRUE(config.loss_scale.dynamic);
  EXPECT_EQ(config.loss_scale.scale, 16);
  EXPECT_EQ(config.global_batch, 64);
  EXPECT_EQ(config.steps_per_print, 50);
  EXPECT_TRUE(config.step_breakdown);
  EXPECT_EQ(config.zero.reduce_bucket_size, 1'000'000);
  EXPECT_THAT(PrintSettings(config.settings),
              AllOf(HasSubstr("optimizer.params.lr = 0.25  (file)\n"), Not(HasSubstr("(--"))));
}

TEST(ConfigFileTest, FlagsBeatItAndAreShown) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig config,
                       Read(kConfig, {"--stage=1", "--lr=0.5", "--nesterov", "--clip=0",
                                      "--global-batch=10", "--warmup-steps=7", "--loss-scale=8"}));
  EXPECT_EQ(config.stage, ZeroStage::kOne);
  EXPECT_EQ(config.optimizer.learning_rate, 0.5);
  EXPECT_EQ(config.optimizer.momentum, 0.9);
  EXPECT_TRUE(config.optimizer.nesterov);
  EXPECT_EQ(config.clip, 0);
  EXPECT_EQ(config.global_batch, 10);
  EXPECT_EQ(config.schedule.warmup_steps, 7);
  EXPECT_EQ(config.schedule.kind, ScheduleKind::kWarmupCosine);
  EXPECT_FALSE(config.loss_scale.dynamic);
  EXPECT_EQ(config.loss_scale.scale, 8);
  EXPECT_THAT(
      PrintSettings(config.settings),
      AllOf(HasSubstr("zero_optimization.stage = 1  (--stage)\n"),
            HasSubstr("optimizer.params.lr = 0.5  (--lr)\n"),
            HasSubstr("optimizer.params.momentum = 0.9  (file)\n"),
            HasSubstr("optimizer.params.nesterov = true  (--nesterov)\n"),
            HasSubstr("fp16.loss_scale = 8  (--loss-scale)\n"),
            HasSubstr("train_batch_size = 10  (--global-batch)\n"), Not(HasSubstr("micro_batch"))));
}

TEST(ConfigFileTest, AnotherOptimizerOrDTypeBringsItsOwnNumbers) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig lion, Read(kConfig, {"--optimizer=Lion"}));
  EXPECT_EQ(lion.optimizer.kind, OptimizerKind::kLion);
  EXPECT_EQ(lion.optimizer.learning_rate, 1e-4);
  EXPECT_THAT(PrintSettings(lion.settings),
              AllOf(HasSubstr("optimizer.type = Lion"), Not(HasSubstr("momentum"))));
  ASSERT_OK_AND_ASSIGN(const TrainConfig bf16, Read(kConfig, {"--dtype=bf16"}));
  EXPECT_EQ(bf16.loss_scale.scale, 1);
  EXPECT_FALSE(bf16.loss_scale.dynamic);
  ASSERT_OK_AND_ASSIGN(const TrainConfig fp16,
                       Read(R"({"train_batch_size": 4})", {"--dtype=fp16"}));
  EXPECT_EQ(fp16.loss_scale.scale, 65536);
}

TEST(ConfigFileTest, WhatFollowsFromAFlagIsShownAsItIs) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig config,
                       Read(R"({"train_batch_size": 64,
      "bf16": {"enabled": true}, "scheduler": {"type": "WarmupLR"},
      "gradient_accumulation_steps": 2})",
                            {"--dtype=fp32", "--lr=0.5", "--accumulate=4"}));
  EXPECT_THAT(PrintSettings(config.settings),
              AllOf(HasSubstr("communication_data_type = float32  (the dtype of the weights)\n"),
                    HasSubstr("data_types.grad_accum_dtype = float32  (communication_data_type)\n"),
                    HasSubstr("warmup_max_lr = 0.5  (optimizer.params.lr)\n"),
                    HasSubstr("bf16.enabled = false  (--dtype)\n"),
                    HasSubstr("gradient_accumulation_steps = 4  (--accumulate)\n"),
                    Not(HasSubstr("micro_batch"))));
}

TEST(ConfigFileTest, AGlobalBatchGivenBeatsOneThatIsNoneOrDoesNotDivide) {
  for (const char* json : {R"({"train_batch_size": "auto"})", R"({"train_batch_size": 6})", "{}",
                           R"({"train_batch_size": 6, "train_micro_batch_size_per_gpu": 3})"}) {
    SCOPED_TRACE(json);
    EXPECT_FALSE(Read(json, {}).ok());
    ASSERT_OK_AND_ASSIGN(const TrainConfig config, Read(json, {"--global-batch=10"}));
    EXPECT_EQ(config.global_batch, 10);
    EXPECT_EQ(config.zero.gradient_accumulation_steps, 1);
    EXPECT_THAT(
        PrintSettings(config.settings),
        AllOf(HasSubstr("train_batch_size = 10  (--global-batch)\n"), Not(HasSubstr("micro_batch")),
              HasSubstr("gradient_accumulation_steps = 1  (")));
  }
  // What the file says of micro-steps holds.
  ASSERT_OK_AND_ASSIGN(
      const TrainConfig steps,
      Read(R"({"train_batch_size": 6, "gradient_accumulation_steps": 4})", {"--global-batch=10"}));
  EXPECT_EQ(steps.zero.gradient_accumulation_steps, 4);
  ASSERT_OK_AND_ASSIGN(const TrainConfig micro,
                       Read(R"({"train_micro_batch_size_per_gpu": 2})", {"--global-batch=17"}));
  EXPECT_EQ(micro.zero.gradient_accumulation_steps, 3);
}

TEST(ConfigFileTest, AStageGivenBeatsTheGroupsOfHybridShard) {
  constexpr char kHybrid[] =
      R"({"train_batch_size": 64, "zero_optimization": {"stage": "HYBRID_SHARD"}})";
  ASSERT_OK_AND_ASSIGN(const TrainConfig file, Read(kHybrid, {}));
  EXPECT_EQ(file.zero.shard_group_size, kRanksOfHost);
  for (const char* stage : {"--stage=ddp", "--stage=2"}) {
    ASSERT_OK_AND_ASSIGN(const TrainConfig config, Read(kHybrid, {stage}));
    EXPECT_EQ(config.zero.shard_group_size, kAllRanks);
    EXPECT_THAT(PrintSettings(config.settings),
                HasSubstr("ringzero.shard_group_size = all  (zero_optimization.stage)\n"));
  }
  ASSERT_OK_AND_ASSIGN(const TrainConfig both, Read(kHybrid, {"--stage=2", "--shard-group=2"}));
  EXPECT_EQ(both.zero.shard_group_size, 2);
}

TEST(ConfigFileTest, ErrorsNameTheFile) {
  EXPECT_THAT(Read(R"({"train_batch_sise": 4})", {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("config.json: "), HasSubstr("train_batch_size?"))));
  EXPECT_THAT(Read(R"({"train_batch_size": 4000000})", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1048576")));
  EXPECT_THAT(Read(R"({"train_batch_size": 6})", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 ranks")));
  EXPECT_THAT(Read(R"({"train_batch_size": 4, "steps_per_print": -1})", {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("config.json: steps_per_print is -1; it must be at least 0")));
  EXPECT_OK(Read(R"({"train_batch_size": 4, "steps_per_print": 0})", {}));
  TrainConfig config;
  EXPECT_THAT(ApplyConfigFile("/nowhere/c.json", FlagSet("rz_train", ""), 1, &config),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/c.json")));
  EXPECT_THAT(ApplyConfigFile(::testing::TempDir(), FlagSet("rz_train", ""), 1, &config),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("directory")));
}

}  // namespace
}  // namespace rz
