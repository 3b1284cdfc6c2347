#include "tools/train/train_config.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

absl::StatusOr<TrainConfig> Read(const std::vector<std::string>& arguments,
                                 const std::string& environment_algorithms = "") {
  FlagSet flags("rz_train", "");
  TrainFlags train_flags;
  train_flags.Declare(&flags);
  RZ_RETURN_IF_ERROR(flags.Parse(arguments));
  return train_flags.Read(flags, environment_algorithms, /*ranks=*/4);
}

TEST(TrainConfigTest, Defaults_AreTheDemo) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig config, Read({}));
  EXPECT_EQ(config.dataset, "fashion-mnist");
  EXPECT_EQ(config.model.mlp()->ParameterCount(), 247'766);
  EXPECT_EQ(config.stage, ZeroStage::kOne);
  EXPECT_EQ(config.dtype, DType::kBFloat16);
  EXPECT_EQ(config.numeric_mode, NumericMode::kDeterministic);
  EXPECT_EQ(config.epochs, 3);
  EXPECT_EQ(config.steps, 0);
}

// The file's defaults are DeepSpeed's, the flags' are the demo's: --help says so of both.
TEST(TrainConfigTest, Help_SaysWhatHoldsWithAConfigurationAndWithout) {
  FlagSet flags("rz_train", "");
  TrainFlags train_flags;
  train_flags.Declare(&flags);
  EXPECT_THAT(flags.Help(), HasSubstr("ddp, fp32, lr 0.001, weight decay 0, clip 1"));
  const std::string path = ::testing::TempDir() + "/least.json";
  std::ofstream(path) << R"({"train_batch_size": 64})";
  ASSERT_OK_AND_ASSIGN(const TrainConfig file, Read({"--config=" + path}));
  EXPECT_EQ(file.stage, ZeroStage::kDdp);
  EXPECT_EQ(file.dtype, DType::kFloat32);
  EXPECT_EQ(file.optimizer.learning_rate, 0.001);
  EXPECT_EQ(file.optimizer.weight_decay, 0);
  EXPECT_EQ(file.clip, 1);
  ASSERT_OK_AND_ASSIGN(const TrainConfig own, Read({}));
  EXPECT_EQ(own.optimizer.learning_rate, 0.0015);
  EXPECT_EQ(own.optimizer.weight_decay, 0.01);
  EXPECT_EQ(own.clip, 0);
  EXPECT_THAT(flags.Help(),
              AllOf(HasSubstr("0.0015 for AdamW"), HasSubstr("0.01 for AdamW, else 0"),
                    HasSubstr("this L2 norm; 0 leaves it (default 0)")));
}

TEST(TrainConfigTest, ReadsEveryFlag) {
  ASSERT_OK_AND_ASSIGN(
      const TrainConfig config,
      Read({"--dataset=synthetic", "--model=8-4-2", "--stage=0", "--dtype=fp32", "--numeric=fast",
            "--algo=all_reduce:ring", "--transport=tcp", "--lr=0.5", "--weight-decay=0",
            "--global-batch=7", "--steps=9", "--seed=4", "--report=r.json", "--reference=d.json"}));
  EXPECT_EQ(config.dataset, "synthetic");
  EXPECT_EQ(config.model.ToString(), "8-4-2");
  EXPECT_EQ(config.stage, ZeroStage::kDdp);
  EXPECT_EQ(config.dtype, DType::kFloat32);
  EXPECT_EQ(config.numeric_mode, NumericMode::kFast);
  EXPECT_EQ(config.algorithms, "all_reduce:ring");
  EXPECT_EQ(config.transport, "tcp");
  EXPECT_EQ(config.optimizer.learning_rate, 0.5);
  EXPECT_EQ(config.optimizer.weight_decay, 0);
  EXPECT_EQ(config.global_batch, 7);
  EXPECT_EQ(config.steps, 9);
  EXPECT_EQ(config.epochs, 0);
  EXPECT_EQ(config.seed, 4u);
  EXPECT_EQ(config.report_path, "r.json");
  EXPECT_EQ(config.reference_path, "d.json");
  ASSERT_OK_AND_ASSIGN(const TrainConfig images, Read({"--data-dir=/d"}));
  EXPECT_EQ(images.data_dir, "/d");
}

TEST(TrainConfigTest, SyntheticData_IsInNoFolder) {
  for (const char* model : {"--model=8-4-2", "--model=gpt-1x1x8x10"}) {
    EXPECT_OK(Read({"--dataset=synthetic", model}));
    EXPECT_THAT(Read({"--dataset=synthetic", "--data-dir=/d", model}),
                StatusIs(kInvalidArgument,
                         AllOf(HasSubstr("--data-dir"), HasSubstr("--dataset synthetic"))));
  }
}

TEST(TrainConfigTest, Optimizer_HasItsOwnNumbersUnlessTheyAreGiven) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig adamw, Read({}));
  EXPECT_EQ(adamw.optimizer.learning_rate, 0.0015);
  EXPECT_EQ(adamw.optimizer.weight_decay, 0.01);
  ASSERT_OK_AND_ASSIGN(const TrainConfig lion, Read({"--optimizer=Lion"}));
  EXPECT_EQ(lion.optimizer.kind, OptimizerKind::kLion);
  EXPECT_EQ(lion.optimizer.learning_rate, 1e-4);
  EXPECT_EQ(lion.optimizer.beta2, 0.99);
  EXPECT_EQ(lion.optimizer.weight_decay, 0);
  ASSERT_OK_AND_ASSIGN(
      const TrainConfig sgd,
      Read({"--optimizer=SGD", "--lr=0.5", "--weight-decay=0.25", "--momentum=0.9", "--nesterov"}));
  EXPECT_EQ(sgd.optimizer.learning_rate, 0.5);
  EXPECT_EQ(sgd.optimizer.weight_decay, 0.25);
  EXPECT_EQ(sgd.optimizer.momentum, 0.9);
  EXPECT_TRUE(sgd.optimizer.nesterov);
  EXPECT_THAT(Read({"--momentum=0.9"}), StatusIs(kInvalidArgument, HasSubstr("SGD")));
  EXPECT_THAT(Read({"--optimizer=SGD", "--nesterov"}),
              StatusIs(kInvalidArgument, HasSubstr("momentum")));
}

TEST(TrainConfigTest, Schedule_AndClip) {
  ASSERT_OK_AND_ASSIGN(
      const TrainConfig config,
      Read({"--schedule=WarmupCosineLR", "--warmup=linear", "--warmup-steps=7", "--clip=0.5"}));
  EXPECT_EQ(config.schedule.kind, ScheduleKind::kWarmupCosine);
  EXPECT_EQ(config.schedule.warmup, WarmupShape::kLinear);
  EXPECT_EQ(config.schedule.warmup_steps, 7);
  EXPECT_EQ(config.clip, 0.5);
}

TEST(TrainConfigTest, LossScale_IsDynamicInFp16AndNoneElsewhere) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig bf16, Read({}));
  EXPECT_EQ(bf16.loss_scale.scale, 1);
  EXPECT_FALSE(bf16.loss_scale.dynamic);
  ASSERT_OK_AND_ASSIGN(const TrainConfig dynamic, Read({"--dtype=fp16"}));
  EXPECT_TRUE(dynamic.loss_scale.dynamic);
  EXPECT_EQ(dynamic.loss_scale.scale, 65536);
  ASSERT_OK_AND_ASSIGN(const TrainConfig fixed, Read({"--dtype=fp16", "--loss-scale=128"}));
  EXPECT_FALSE(fixed.loss_scale.dynamic);
  EXPECT_EQ(fixed.loss_scale.scale, 128);
  EXPECT_THAT(Read({"--loss-scale=128"}), StatusIs(kInvalidArgument, HasSubstr("fp16")));
}

TEST(TrainConfigTest, Algorithms_TheFlagBeatsTheEnvironment) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig from_environment, Read({}, "all_reduce:ring"));
  EXPECT_EQ(from_environment.algorithms, "all_reduce:ring");
  ASSERT_OK_AND_ASSIGN(const TrainConfig from_flag,
                       Read({"--algo=reduce_scatter:pairwise"}, "all_reduce:ring"));
  EXPECT_EQ(from_flag.algorithms, "reduce_scatter:pairwise");
}

TEST(TrainConfigTest, ValuesOutOfBounds_NameTheFlag) {
  for (const char* argument :
       {"--steps=0", "--steps=-1", "--epochs=0", "--epochs=1048577", "--global-batch=0",
        "--global-batch=1048577", "--lr=-1", "--lr=inf", "--lr=1001", "--weight-decay=nan",
        "--weight-decay=-0.1", "--seed=-1", "--seed=9223372036854775808"}) {
    const std::string flag = std::string(argument).substr(0, std::string(argument).find('='));
    EXPECT_THAT(Read({argument}), StatusIs(kInvalidArgument, HasSubstr(flag))) << argument;
  }
  EXPECT_THAT(Read({"--model=784-x"}), StatusIs(kInvalidArgument, HasSubstr("784-x")));
  EXPECT_THAT(Read({"--model="}), StatusIs(kInvalidArgument, HasSubstr("model \"\"")));
  EXPECT_THAT(Read({"--model=784-257"}), StatusIs(kInvalidArgument, HasSubstr("256 classes")));
  EXPECT_THAT(Read({"--steps=1", "--epochs=1"}), StatusIs(kInvalidArgument, HasSubstr("exclude")));
  EXPECT_THAT(Read({"--compare", "--stage=1"}),
              StatusIs(kInvalidArgument, HasSubstr("leave out --stage")));
}

TEST(TrainConfigTest, Agreement_CoversWhatRanksMustShare) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig base, Read({}));
  for (const char* argument : {"--dataset=synthetic",
                               "--model=784-10",
                               "--stage=0",
                               "--dtype=fp32",
                               "--numeric=fast",
                               "--algo=x:y",
                               "--transport=tcp",
                               "--lr=0.5",
                               "--weight-decay=0",
                               "--global-batch=7",
                               "--steps=9",
                               "--epochs=9",
                               "--seed=4",
                               "--compare",
                               "--accumulate=2",
                               "--accumulation=shard",
                               "--overlap",
                               "--optimizer=Lion",
                               "--schedule=WarmupLR",
                               "--warmup=linear",
                               "--warmup-steps=3",
                               "--clip=1",
                               "--dtype=fp16"}) {
    ASSERT_OK_AND_ASSIGN(const TrainConfig other, Read({argument}));
    EXPECT_NE(other.AgreementHash(), base.AgreementHash()) << argument;
  }
  ASSERT_OK_AND_ASSIGN(const TrainConfig same, Read({"--report=r", "--data-dir=/elsewhere"}));
  EXPECT_EQ(same.AgreementHash(), base.AgreementHash());
}

TEST(OpenDatasetTest, Synthetic_FitsAnyModel) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig config, Read({"--dataset=synthetic", "--model=12-5-3"}));
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, OpenDataset(config));
  EXPECT_EQ(dataset.train->input_size(), 12);
  EXPECT_EQ(dataset.train->class_count(), 3);
}

TEST(OpenDatasetTest, BatchLargerThanTheData_ShowsBoth) {
  ASSERT_OK_AND_ASSIGN(TrainConfig config,
                       Read({"--dataset=synthetic", "--model=12-3", "--global-batch=4096"}));
  EXPECT_OK(OpenDataset(config));
  config.global_batch = 4097;
  EXPECT_THAT(OpenDataset(config),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("4096"), HasSubstr("4097"))));
}

TEST(OpenDatasetTest, DataMissing_IsNotFound) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig config, Read({"--data-dir=/nowhere"}));
  EXPECT_THAT(OpenDataset(config), StatusIs(absl::StatusCode::kNotFound));
}

TEST(TrainConfigTest, Text_HasDefaultsOfItsOwn) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig text, Read({"--dataset=bible-kjv"}));
  ASSERT_NE(text.model.transformer(), nullptr);
  EXPECT_EQ(text.data_dir, "");
  EXPECT_EQ(text.global_batch, 32);
  EXPECT_EQ(text.optimizer.learning_rate, 0.003);
  EXPECT_EQ(text.epochs, 1);
  EXPECT_EQ(text.sample_length, 400);
  ASSERT_OK_AND_ASSIGN(
      const TrainConfig given,
      Read({"--dataset=bible-kjv", "--model=gpt-1x2x8x16", "--global-batch=7", "--lr=0.5",
            "--data-dir=/t.txt", "--sample=9", "--temperature=0", "--steps=3"}));
  EXPECT_EQ(given.model.ToString(), "gpt-1x2x8x16");
  EXPECT_EQ(given.data_dir, "/t.txt");
  EXPECT_EQ(given.global_batch, 7);
  EXPECT_EQ(given.optimizer.learning_rate, 0.5);
  EXPECT_EQ(given.sample_length, 9);
  EXPECT_EQ(given.temperature, 0);
  EXPECT_NE(given.AgreementHash(), text.AgreementHash());
  EXPECT_NE(text.AgreementHash("text crc32c 1"), text.AgreementHash("text crc32c 2"));
  // Images do not have them, and every optimizer has its own learning rate.
  ASSERT_OK_AND_ASSIGN(const TrainConfig images, Read({}));
  EXPECT_EQ(images.sample_length, 0);
  ASSERT_OK_AND_ASSIGN(const TrainConfig lion, Read({"--dataset=bible-kjv", "--optimizer=Lion"}));
  EXPECT_EQ(lion.optimizer.learning_rate, 1e-4);
}

TEST(TrainConfigTest, ModelOfTheOtherKind_SaysWhatIsExpected) {
  EXPECT_THAT(Read({"--dataset=bible-kjv", "--model=784-10"}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("\"784-10\" does not fit bible-kjv"),
                                               HasSubstr("gpt-LAYERSxHEADSxWIDTHxCONTEXT"))));
  EXPECT_THAT(Read({"--model=gpt-1x1x8x8"}),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("does not fit fashion-mnist"),
                                               HasSubstr("784-256-128-100-10"))));
  EXPECT_THAT(Read({"--sample=5"}), StatusIs(kInvalidArgument, HasSubstr("model of text")));
}

TEST(OpenDatasetTest, SyntheticText_ForATransformer) {
  ASSERT_OK_AND_ASSIGN(const TrainConfig config,
                       Read({"--dataset=synthetic", "--model=gpt-1x1x8x10"}));
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, OpenDataset(config));
  ASSERT_NE(dataset.text, nullptr);
  EXPECT_EQ(dataset.train->input_size(), 10);
  EXPECT_EQ(dataset.train->class_count(), 16);
}

TEST(OpenDatasetTest, AnyTextFile) {
  const std::string path = ::testing::TempDir() + "/text.txt";
  std::ofstream(path) << std::string(1000, 'a') << "b";
  ASSERT_OK_AND_ASSIGN(TrainConfig config,
                       Read({"--dataset=bible-kjv", "--data-dir=" + path, "--model=gpt-1x1x8x10"}));
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, OpenDataset(config));
  EXPECT_EQ(dataset.name, path);
  EXPECT_EQ(dataset.train->class_count(), 2);
  config.data_dir = "/nowhere.txt";
  EXPECT_THAT(OpenDataset(config),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere.txt")));
}

}  // namespace
}  // namespace rz
