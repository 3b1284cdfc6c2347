#include "optimizer/config/training_config.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

// With a batch size, which every configuration needs.
absl::StatusOr<TrainingConfig> Parse(const std::string& keys, int ranks = 4) {
  return ParseConfig(absl::StrCat("{\"train_batch_size\": 64", keys.empty() ? "" : ", ", keys, "}"),
                     ranks);
}

// A setting as PrintSettings has it.
std::string Line(const TrainingConfig& config, const std::string& key) {
  for (const Setting& setting : config.settings) {
    if (setting.key == key) return absl::StrCat(setting.value, " (", setting.origin, ")");
  }
  return "none";
}

TEST(ParseConfigTest, Defaults) {
  ASSERT_OK_AND_ASSIGN(const TrainingConfig config, Parse(""));
  const ZeroConfig& zero = config.zero;
  EXPECT_EQ(zero.stage, ZeroStage::kDdp);
  EXPECT_EQ(zero.dtype, DType::kFloat32);
  EXPECT_EQ(zero.optimizer.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(zero.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(zero.optimizer.weight_decay, 0);
  EXPECT_EQ(zero.schedule.kind, ScheduleKind::kConstant);
  EXPECT_EQ(zero.gradient_clipping, 1);
  EXPECT_EQ(zero.max_skipped_steps, 10);
  EXPECT_EQ(zero.fuse_step, std::nullopt);
  EXPECT_TRUE(zero.inspect_gradients);
  EXPECT_EQ(zero.loss_scale.scale, 1);
  EXPECT_EQ(zero.reduce_bucket_size, 500'000'000);
  EXPECT_EQ(zero.param_persistence_threshold, 0);
  EXPECT_EQ(zero.communication_dtype, std::nullopt);
  EXPECT_EQ(config.batch.micro, 16);
  EXPECT_EQ(config.steps_per_print, 0);
  EXPECT_OK(ValidateConfig(zero));
}

TEST(ParseConfigTest, GroupsOfRanksUnderTheirThreeNames) {
  const std::pair<const char*, int64_t> groups[] = {
      {R"("zero_optimization": {"stage": 3})", kAllRanks},
      {R"("zero_optimization": {"stage": "HYBRID_SHARD"})", kRanksOfHost},
      {R"("zero_optimization": {"stage": 3, "mics_shard_size": 4})", 4},
      {R"("zero_optimization": {"stage": 3, "mics_shard_size": -1})", kAllRanks},
      {R"("zero_optimization": {"stage": 1}, "ringzero": {"shard_group_size": 2})", 2},
      {R"("zero_optimization": {"sharding_strategy": "HYBRID_SHARD"},
          "ringzero": {"shard_group_size": 2})",
       2},
  };
  for (const auto& [json, size] : groups) {
    ASSERT_OK_AND_ASSIGN(const TrainingConfig config, Parse(json));
    EXPECT_EQ(config.zero.shard_group_size, size) << json;
  }
  EXPECT_THAT(Parse(R"("zero_optimization": {"stage": 2, "mics_shard_size": 4})"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("mics_shard_size is 4"), HasSubstr("stage 2"))));
  EXPECT_THAT(Parse(R"("zero_optimization": {"stage": 3, "mics_shard_size": 4},
                       "ringzero": {"shard_group_size": 2})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("give one")));
  EXPECT_THAT(Parse(R"("zero_optimization": {"stage": 3}, "ringzero": {"shard_group_size": 0})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shard_group_size is 0")));
}

constexpr char kEveryKey[] = R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 3e-4, "betas": [0.8, 0.95], "eps": 1e-6,
      "weight_decay": 0.1, "bias_correction": false, "adam_w_mode": false, "torch_adam": false}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 1e-5, "warmup_max_lr": 2e-4,
      "warmup_num_steps": 7, "warmup_type": "linear", "total_num_steps": 100}},
    "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 8, "loss_scale_window": 9,
      "hysteresis": 3, "consecutive_hysteresis": true, "min_loss_scale": 2},
    "gradient_clipping": 0.5, "communication_data_type": "fp32",
    "data_types": {"grad_accum_dtype": "bf16"}, "gradient_allreduce_op": "sum",
    "steps_per_print": 5, "wall_clock_breakdown": true, "memory_breakdown": true,
    "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8, "allgather_bucket_size": 1e6,
      "overlap_comm": true, "stage3_prefetch_bucket_size": 11, "stage3_max_live_parameters": 12,
      "stage3_param_persistence_threshold": 13, "stage3_max_reuse_distance": 14,
      "contiguous_gradients": true, "sub_group_size": 1e9},
    "ringzero": {"accumulation": "shard", "buckets_in_flight": 9,
      "max_skipped_steps": 3, "fused_step": false, "inspect_gradients": false,
      "progress_thread": "on"}})";

TEST(ParseConfigTest, EveryKey) {
  ASSERT_OK_AND_ASSIGN(const TrainingConfig config, ParseConfig(kEveryKey, 4));
  const ZeroConfig& zero = config.zero;
  EXPECT_EQ(zero.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_EQ(zero.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(zero.optimizer.beta1, 0.8);
  EXPECT_EQ(zero.optimizer.beta2, 0.95);
  EXPECT_EQ(zero.optimizer.epsilon, 1e-6);
  EXPECT_EQ(zero.optimizer.weight_decay, 0.1);
  EXPECT_FALSE(zero.optimizer.bias_correction);
  EXPECT_EQ(zero.schedule.kind, ScheduleKind::kWarmupDecay);
  EXPECT_EQ(zero.schedule.warmup, WarmupShape::kLinear);
  EXPECT_EQ(zero.schedule.warmup_steps, 7);
  EXPECT_EQ(zero.schedule.total_steps, 100);
  EXPECT_EQ(zero.schedule.min_rate, 1e-5);
  EXPECT_EQ(zero.schedule.max_rate, 2e-4);
  EXPECT_EQ(zero.dtype, DType::kFloat16);
  EXPECT_TRUE(zero.loss_scale.dynamic);
  EXPECT_EQ(zero.loss_scale.scale, 256);
  EXPECT_EQ(zero.loss_scale.window, 9);
  EXPECT_EQ(zero.loss_scale.hysteresis, 3);
  EXPECT_TRUE(zero.loss_scale.consecutive_hysteresis);
  EXPECT_EQ(zero.loss_scale.minimum, 2);
  EXPECT_EQ(zero.gradient_clipping, 0.5);
  EXPECT_EQ(zero.communication_dtype, DType::kFloat32);
  EXPECT_EQ(zero.accumulation_dtype, DType::kBFloat16);
  EXPECT_EQ(zero.reduction, GradientReduction::kSum);
  EXPECT_EQ(zero.gradient_accumulation_steps, 2);
  EXPECT_EQ(zero.accumulation, AccumulationPolicy::kShard);
  EXPECT_EQ(zero.stage, ZeroStage::kThree);
  EXPECT_EQ(zero.reduce_bucket_size, 500'000'000);
  EXPECT_EQ(zero.allgather_bucket_size, 1'000'000);
  EXPECT_TRUE(zero.overlap_communication);
  EXPECT_EQ(zero.prefetch_bucket_size, 11);
  EXPECT_EQ(zero.max_live_parameters, 12);
  EXPECT_EQ(zero.param_persistence_threshold, 13);
  EXPECT_EQ(zero.max_reuse_distance, 14);
  EXPECT_EQ(zero.buckets_in_flight, 9);
  EXPECT_EQ(zero.max_skipped_steps, 3);
  EXPECT_EQ(zero.fuse_step, false);
  EXPECT_FALSE(zero.inspect_gradients);
  EXPECT_EQ(zero.progress_thread, ProgressThreadUse::kOn);
  EXPECT_EQ(config.steps_per_print, 5);
  EXPECT_TRUE(config.wall_clock_breakdown);
  EXPECT_TRUE(config.memory_breakdown);
}

TEST(ParseConfigTest, BucketsInFlightBeyondTheirRangeAreRefusedAsTheyWereWritten) {
  const auto with = [](const char* buckets) {
    return Parse(absl::StrCat(R"("ringzero": {"buckets_in_flight": )", buckets, "}"));
  };
  for (const char* buckets : {"1", "1024"}) EXPECT_OK(with(buckets)) << buckets;
  for (const char* buckets : {"-5", "0", "1025", "100000"}) {
    EXPECT_THAT(with(buckets),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("ringzero.buckets_in_flight is ", buckets,
                                                "; it must be from 1 to 1024"))));
  }
}

TEST(ParseConfigTest, EveryOptimizerAndSchedule) {
  ASSERT_OK_AND_ASSIGN(TrainingConfig config, Parse(R"("optimizer": {"type": "SGD", "params":
      {"lr": 0.1, "momentum": 0.9, "nesterov": true, "weight_decay": 1e-4}})"));
  EXPECT_EQ(config.zero.optimizer.momentum, 0.9);
  EXPECT_TRUE(config.zero.optimizer.nesterov);
  EXPECT_EQ(config.zero.optimizer.weight_decay, 1e-4);
  ASSERT_OK_AND_ASSIGN(config, Parse(R"("optimizer": {"type": "lion"})"));
  EXPECT_EQ(config.zero.optimizer.kind, OptimizerKind::kLion);
  EXPECT_EQ(config.zero.optimizer.beta2, 0.99);
  ASSERT_OK_AND_ASSIGN(config,
                       Parse(R"("optimizer": {"type": "Adagrad", "params": {"lr_decay": 0.5}})"));
  EXPECT_EQ(config.zero.optimizer.learning_rate_decay, 0.5);
  EXPECT_EQ(config.zero.optimizer.epsilon, 1e-10);
  ASSERT_OK_AND_ASSIGN(config, Parse(R"("optimizer": {"type": "Adam"})"));
  EXPECT_EQ(config.zero.optimizer.kind, OptimizerKind::kAdamW) << "unless adam_w_mode is false";
  ASSERT_OK_AND_ASSIGN(config, Parse(R"("scheduler": {"type": "WarmupLR"},
      "optimizer": {"params": {"lr": 0.25}})"));
  EXPECT_EQ(config.zero.schedule.warmup, WarmupShape::kLogarithmic);
  EXPECT_EQ(LearningRate(config.zero.schedule, 0.25, 5000), 0.25);
  EXPECT_EQ(Line(config, "scheduler.params.warmup_max_lr"), "0.25 (optimizer.params.lr)");
  ASSERT_OK_AND_ASSIGN(config, Parse(R"("scheduler": {"type": "WarmupCosineLR", "params":
      {"total_num_steps": 50, "warmup_min_ratio": 0.5, "cos_min_ratio": 0.25}})"));
  EXPECT_EQ(config.zero.schedule.warmup_min_ratio, 0.5);
  EXPECT_EQ(config.zero.schedule.cosine_min_ratio, 0.25);
  EXPECT_THAT(Parse(R"("scheduler": {"type": "WarmupCosineLR"})"),
              StatusIs(kInvalidArgument, HasSubstr("total_steps")));
}

TEST(ParseConfigTest, StagesInEveryonesWords) {
  const std::vector<std::pair<const char*, ZeroStage>> stages = {
      {"\"stage\": 0", ZeroStage::kDdp},
      {"\"stage\": 2", ZeroStage::kTwo},
      {"\"stage\": \"naive\"", ZeroStage::kNaive},
      {"\"stage\": 1, \"reduce_scatter\": false", ZeroStage::kNaive},
      {"\"stage\": \"FULL_SHARD\"", ZeroStage::kThree},
      {"\"stage\": \"HYBRID_SHARD\"", ZeroStage::kThree},
      {"\"sharding_strategy\": \"SHARD_GRAD_OP\"", ZeroStage::kTwo},
      {"\"sharding_strategy\": \"no_shard\"", ZeroStage::kDdp},
  };
  for (const auto& [keys, stage] : stages) {
    ASSERT_OK_AND_ASSIGN(const TrainingConfig config,
                         Parse(absl::StrCat("\"zero_optimization\": {", keys, "}")));
    EXPECT_EQ(config.zero.stage, stage) << keys;
  }
  EXPECT_THAT(Parse(R"("zero_optimization": {"stage": 2, "reduce_scatter": false})"),
              StatusIs(kUnimplemented, HasSubstr("reduce_scatter")));
  EXPECT_THAT(Parse(R"("zero_optimization": {"stage": 2, "sharding_strategy": "FULL_SHARD"})"),
              StatusIs(kInvalidArgument, HasSubstr("another name")));
}

TEST(ParseConfigTest, StaticLossScaleAndBf16) {
  ASSERT_OK_AND_ASSIGN(TrainingConfig config, Parse(R"("fp16": {"enabled": true,
      "loss_scale": 128})"));
  EXPECT_FALSE(config.zero.loss_scale.dynamic);
  EXPECT_EQ(config.zero.loss_scale.scale, 128);
  ASSERT_OK_AND_ASSIGN(config, Parse(R"("bfloat16": {"enabled": true})"));
  EXPECT_EQ(config.zero.dtype, DType::kBFloat16);
  EXPECT_EQ(config.zero.loss_scale.scale, 1);
  EXPECT_THAT(Parse(R"("bf16": {"enabled": true}, "fp16": {"enabled": true})"),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("fp16"), HasSubstr("bf16"))));
}

struct Refusal {
  const char* keys;
  absl::StatusCode code;
  const char* says;
};

TEST(ParseConfigTest, NothingIsIgnored) {
  const std::vector<Refusal> refusals = {
      {R"("optimiser": {})", kInvalidArgument, "unknown key optimiser; did you mean optimizer?"},
      {R"("zero_optimization": {"stag": 1})", kInvalidArgument,
       "unknown key zero_optimization.stag; did you mean zero_optimization.stage?"},
      {R"("zzz": 1)", kInvalidArgument, "there are: train_batch_size"},
      {R"("optimizer": {"type": "Lamb"})", kInvalidArgument, "optimizer.type"},
      {R"("optimizer": {"params": {"momentum": 0.9}})", kInvalidArgument,
       "optimizer.params.momentum is for SGD; the type here is AdamW"},
      {R"("zero_optimization": {"offload_optimizer": {"device": "cpu"}})", kUnimplemented,
       "zero_optimization.offload_optimizer is not supported"},
      {R"("prescale_gradients": true)", kUnimplemented, "only false is accepted"},
      {R"("zero_optimization": {"sub_group_size": 1e12})", kUnimplemented, "only 1000000000"},
      {R"("zero_optimization": {"reduce_bucket_size": 5.5})", kInvalidArgument,
       "reduce_bucket_size: expected a whole number, found 5.5"},
      {R"("zero_optimization": {"reduce_bucket_size": 1e300})", kInvalidArgument, "whole number"},
      {R"("zero_optimization": {"reduce_bucket_size": "5e8"})", kInvalidArgument,
       "expected a whole number, found \"5e8\""},
      {R"("zero_optimization": {"stage": 4})", kInvalidArgument, "expected one of 0, 1, 2, 3"},
      {R"("zero_optimization": true)", kInvalidArgument, "expected an object, found true"},
      {R"("gradient_clipping": true)", kInvalidArgument, "expected a number, found true"},
      {R"("wall_clock_breakdown": 1)", kInvalidArgument, "expected true or false, found 1"},
      {R"("optimizer": {"params": {"betas": [0.9]}})", kInvalidArgument, "[number, number]"},
      {R"("optimizer": {"params": {"betas": [0.9, "x"]}})", kInvalidArgument, "expected numbers"},
      {R"("optimizer": {"params": {"betas": [0.9, 1.5]}})", kInvalidArgument, "beta2 is 1.5"},
      {R"("fp16": {"enabled": true, "initial_scale_power": 128})", kInvalidArgument, "from 0 to"},
      {R"("train_micro_batch_size_per_gpu": 5)", kInvalidArgument, "no multiple"},
      {R"("bf16": {}, "bf16": {})", kInvalidArgument, "bf16"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(Parse(refusal.keys), StatusIs(refusal.code, HasSubstr(refusal.says)))
        << refusal.keys;
  }
}

TEST(ParseConfigTest, ParameterGroups) {
  ASSERT_OK_AND_ASSIGN(const TrainingConfig config, Parse(R"("optimizer": {"params": {
      "weight_decay": 0.1}}, "ringzero": {"parameter_groups": [
      {"match": "*.bias", "weight_decay": 0, "lr_scale": 0.5},
      {"match": "layer1.*", "lr": 1e-4, "betas": [0.8, 0.9], "eps": 1e-6},
      {"match": "?", "frozen": true}]})"));
  ASSERT_EQ(config.zero.groups.size(), 4u);
  EXPECT_EQ(config.zero.groups[0].weight_decay, std::nullopt);
  EXPECT_EQ(config.zero.groups[1].weight_decay, 0);
  EXPECT_EQ(config.zero.groups[1].lr_scale, 0.5);
  EXPECT_EQ(config.zero.groups[1].learning_rate, std::nullopt);
  EXPECT_EQ(config.zero.groups[2].learning_rate, 1e-4);
  EXPECT_EQ(config.zero.groups[2].beta2, 0.9);
  EXPECT_EQ(config.zero.groups[2].epsilon, 1e-6);
  ASSERT_EQ(config.group_rules.size(), 3u);
  EXPECT_EQ(config.group_rules[1].match, "layer1.*");
  EXPECT_EQ(config.group_rules[1].group, 2u);
  EXPECT_FALSE(config.group_rules[1].frozen);
  EXPECT_TRUE(config.group_rules[2].frozen);
  EXPECT_OK(ValidateConfig(config.zero));
  EXPECT_EQ(Line(config, "ringzero.parameter_groups[0].match"), "\"*.bias\" (file)");
  EXPECT_EQ(Line(config, "ringzero.parameter_groups[0].weight_decay"), "0 (file)");
  EXPECT_EQ(Line(config, "ringzero.parameter_groups[0].lr"), "none");
  EXPECT_EQ(Line(config, "ringzero.parameter_groups[2].lr_scale"), "1 (default)");
  for (const Setting& setting : config.settings) EXPECT_FALSE(setting.value.empty());
}

TEST(ParseConfigTest, ParameterGroupsThatCannotBe) {
  const auto parse = [](const std::string& groups, const std::string& optimizer = "AdamW") {
    return Parse(absl::StrCat("\"optimizer\": {\"type\": \"", optimizer,
                              "\"}, \"ringzero\": {\"parameter_groups\": ", groups, "}"));
  };
  EXPECT_THAT(parse("{}"), StatusIs(kInvalidArgument, HasSubstr("expected a list of objects")));
  EXPECT_THAT(parse("[3]"),
              StatusIs(kInvalidArgument, HasSubstr("parameter_groups[0]: expected an object")));
  EXPECT_THAT(parse(R"([{"match": "a"}, {"lr": 1}])"),
              StatusIs(kInvalidArgument, HasSubstr("parameter_groups[1].match is needed")));
  EXPECT_THAT(parse(R"([{"match": ""}])"), StatusIs(kInvalidArgument, HasSubstr("a text")));
  EXPECT_THAT(parse(R"([{"match": 7}])"), StatusIs(kInvalidArgument, HasSubstr("a text")));
  EXPECT_THAT(parse(R"([{"match": "a", "weight_deca": 0}])"),
              StatusIs(kInvalidArgument,
                       HasSubstr("did you mean ringzero.parameter_groups[0].weight_decay")));
  EXPECT_THAT(parse(R"([{"match": "a", "weight_decay": -1}])"),
              StatusIs(kInvalidArgument, HasSubstr("group 1: weight_decay is -1")));
  EXPECT_THAT(parse(R"([{"match": "a", "betas": [0.1, 0.2]}])", "SGD"),
              StatusIs(kInvalidArgument, HasSubstr("[0].betas is nothing that SGD has")));
  EXPECT_THAT(parse(R"([{"match": "a", "eps": 1}])", "Lion"),
              StatusIs(kInvalidArgument, HasSubstr("[0].eps is nothing that Lion has")));
  ASSERT_OK_AND_ASSIGN(const TrainingConfig none, parse("[]"));
  EXPECT_TRUE(none.zero.groups.empty());
}

TEST(ParseConfigTest, WhatIsNoObjectSaysSo) {
  for (const std::string& json :
       {std::string(), std::string("["), std::string("[1]"), std::string("{\"a\" 1}"),
        std::string(100'000, '['), std::string(kMaxConfigBytes + 1, ' ')}) {
    EXPECT_THAT(ParseConfig(json, 1), StatusIs(kInvalidArgument, HasSubstr("the configuration")));
  }
}

TEST(ParseConfigTest, AutoIsResolvedAndShown) {
  ASSERT_OK_AND_ASSIGN(const TrainingConfig config, ParseConfig(R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": 2, "gradient_clipping": "auto", "bf16": {"enabled": true},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}},
    "communication_data_type": null,
    "zero_optimization": {"stage": 1, "allgather_bucket_size": "auto"}})",
                                                                4));
  EXPECT_EQ(config.batch.micro, 8);
  EXPECT_EQ(Line(config, "train_batch_size"), "64 (file)");
  EXPECT_EQ(Line(config, "train_micro_batch_size_per_gpu"),
            "8 (auto: from the other batch sizes and 4 ranks)");
  EXPECT_EQ(Line(config, "gradient_clipping"), "1 (auto)");
  EXPECT_EQ(Line(config, "optimizer.params.lr"), "0.001 (auto: default of AdamW)");
  EXPECT_EQ(Line(config, "optimizer.params.betas"), "[0.9, 0.999] (auto: default of AdamW)");
  EXPECT_EQ(Line(config, "optimizer.params.eps"), "1e-08 (default of AdamW)");
  EXPECT_EQ(Line(config, "communication_data_type"), "bfloat16 (the dtype of the weights)");
  EXPECT_EQ(Line(config, "zero_optimization.allgather_bucket_size"),
            "500000000 (auto: zero_optimization.reduce_bucket_size)");
  EXPECT_EQ(Line(config, "optimizer.params.momentum"), "none") << "it is SGD's";
  const std::string printed = PrintSettings(config.settings);
  EXPECT_THAT(printed, HasSubstr("zero_optimization.stage = 1  (file)\n"));
  for (const Setting& setting : config.settings) {
    EXPECT_FALSE(setting.value.empty()) << setting.key;
  }
}

TEST(ParseConfigTest, DamagedTextNeverCrashes) {
  const std::string valid =
      R"({"train_batch_size": 64, "optimizer": {"type": "SGD", "params": {"lr": 1e-3}},)"
      R"("zero_optimization": {"stage": 1, "reduce_bucket_size": 5e8}, "bf16": {"enabled": true}})";
  uint32_t x = 1;
  for (int round = 0; round < 3000; ++round) {
    std::string text = valid;
    for (int i = 0; i < 3; ++i) {
      x = x * 1664525 + 1013904223;
      text[x % text.size()] = static_cast<char>(x >> 24);
    }
    (void)ParseConfig(text, 2);
  }
}

}  // namespace
}  // namespace rz
