// What the config says of a step beyond its stage: which optimizer, clipping, loss scale, schedule.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne};

ZeroConfig Config(ZeroStage stage, DType dtype) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtype;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 100;
  return config;
}

std::unique_ptr<SimRanks> MakeRanks(int world, const ZeroConfig& config,
                                    const char* algorithms = "") {
  auto ranks = SimRanks::Create(world, algorithms, {{"w", {50}}, {"b", {7}}}, config);
  EXPECT_OK(ranks.status());
  const auto initializer = [](size_t index, absl::Span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(index + 1) + 0.001f * static_cast<float>(i);
    }
  };
  for (const absl::Status& status : (*ranks)->Initialize(initializer)) EXPECT_OK(status);
  return *std::move(ranks);
}

// All gradients of all ranks, the losses multiplied by their scale.
void SetGradients(SimRanks& ranks, float value) {
  for (int rank = 0; rank < ranks.world(); ++rank) {
    const ZeroOptimizer& optimizer = ranks.optimizer(rank);
    for (size_t p = 0; p < optimizer.layout().size(); ++p) {
      for (size_t i = 0; i < static_cast<size_t>(optimizer.layout().range(p).count); ++i) {
        ranks.SetGradient(rank, p, i, value * static_cast<float>(optimizer.loss_scale()));
      }
    }
  }
}

StepReport StepAll(SimRanks& ranks) {
  const auto reports = ranks.Step();
  EXPECT_OK(reports[0].status());
  for (const auto& report : reports) {
    EXPECT_EQ(report->norm, reports[0]->norm);
    EXPECT_EQ(report->clipped_norm, reports[0]->clipped_norm);
    EXPECT_EQ(report->skipped, reports[0]->skipped);
  }
  return reports[0].value_or(StepReport());
}

std::vector<OptimizerConfig> AllOptimizers() {
  std::vector<OptimizerConfig> all;
  for (const OptimizerKind kind : kAllOptimizers) all.push_back(DefaultsOf(kind));
  all.push_back(DefaultsOf(OptimizerKind::kSgd));
  all.back().momentum = 0.9;
  return all;
}

TEST(ZeroSettingsTest, EveryOptimizerGivesOneResultInEveryStageAndItsBooksBalance) {
  for (const OptimizerConfig& optimizer : AllOptimizers()) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      SCOPED_TRACE(::testing::Message() << optimizer.kind << " " << NameOf(dtype));
      std::string expected;
      for (const ZeroStage stage : kStages) {
        ZeroConfig config = Config(stage, dtype);
        config.optimizer = optimizer;
        config.optimizer.learning_rate = 0.1;
        const auto ranks = MakeRanks(3, config);
        const float before = ranks->Parameter(0, 0, 0);
        for (int step = 1; step <= 3; ++step) {
          SetGradients(*ranks, 1.0f / static_cast<float>(step));
          EXPECT_EQ(StepAll(*ranks).step, step);
        }
        EXPECT_NE(ranks->Parameter(0, 0, 0), before);
        if (expected.empty()) expected = ranks->StateBits(0);
        EXPECT_TRUE(ranks->StateBits(0) == expected) << "stage " << stage;
        const MemoryReport memory = ranks->optimizer(1).Memory();
        EXPECT_TRUE(memory.Balances()) << RenderMemoryTable({&memory, 1});
        EXPECT_EQ(memory.shape.optimizer_states, static_cast<int>(StateCount(optimizer)));
      }
    }
  }
}

TEST(ZeroSettingsTest, ALongGradientIsScaledDownToTheLimitAndAShortOneIsLeft) {
  for (const ZeroStage stage : kStages) {
    ZeroConfig config = Config(stage, DType::kFloat32);
    config.optimizer = DefaultsOf(OptimizerKind::kSgd);
    config.optimizer.learning_rate = 1;
    config.gradient_clipping = 1;
    const auto ranks = MakeRanks(4, config);
    const float before = ranks->Parameter(0, 0, 3);
    const double norm = std::sqrt(57.0);
    SetGradients(*ranks, 1);
    const StepReport clipped = StepAll(*ranks);
    EXPECT_NEAR(clipped.norm, norm, 1e-12);
    EXPECT_NEAR(clipped.clipped_norm, 1, 1e-6);
    EXPECT_NEAR(ranks->Parameter(2, 0, 3), before - 1 / norm, 1e-6);
    SetGradients(*ranks, 0.125f);
    const StepReport left = StepAll(*ranks);
    EXPECT_NEAR(left.norm, 0.125 * norm, 1e-12);
    EXPECT_EQ(left.clipped_norm, left.norm);
    EXPECT_NEAR(ranks->Parameter(2, 0, 3), before - 1 / norm - 0.125, 1e-6);
  }
}

TEST(ZeroSettingsTest, ALossScaleOfAPowerOfTwoChangesNoBits) {
  for (const ZeroStage stage : kStages) {
    std::string expected;
    for (const double scale : {1.0, 1024.0}) {
      ZeroConfig config = Config(stage, DType::kFloat32);
      config.loss_scale.scale = scale;
      config.gradient_clipping = 0.5;
      const auto ranks = MakeRanks(3, config);
      SetGradients(*ranks, 0.375f);
      const StepReport report = StepAll(*ranks);
      EXPECT_EQ(report.loss_scale, scale);
      EXPECT_NEAR(report.norm, 0.375 * std::sqrt(57.0), 1e-12);
      if (expected.empty()) expected = ranks->StateBits(0);
      EXPECT_TRUE(ranks->StateBits(0) == expected) << "stage " << stage << ", scale " << scale;
    }
  }
}

TEST(ZeroSettingsTest, AnOverflowOnOneRankSkipsTheStepEverywhereAndLowersTheScale) {
  for (const ZeroStage stage : kStages) {
    ZeroConfig config = Config(stage, DType::kFloat16);
    config.loss_scale = DynamicLossScale();
    config.schedule.kind = ScheduleKind::kWarmup;
    config.schedule.warmup = WarmupShape::kLinear;
    config.schedule.warmup_steps = 10;
    const auto ranks = MakeRanks(3, config);
    // The first takes the hysteresis, the others halve.
    const std::vector<double> scales = {65536, 65536, 32768, 16384};
    const std::string before = ranks->StateBits(0);
    for (size_t i = 0; i + 1 < scales.size(); ++i) {
      EXPECT_EQ(ranks->optimizer(1).loss_scale(), scales[i]);
      SetGradients(*ranks, 1e-4f);
      ranks->SetGradient(2, 1, 6, std::numeric_limits<float>::infinity());
      const StepReport report = StepAll(*ranks);
      EXPECT_TRUE(report.skipped);
      EXPECT_EQ(report.step, 0);
      EXPECT_EQ(report.loss_scale, scales[i]);
      EXPECT_EQ(report.first_non_finite_parameter, "b");
    }
    EXPECT_TRUE(ranks->StateBits(0) == before);
    EXPECT_EQ(ranks->optimizer(0).loss_scale(), scales.back());
    EXPECT_EQ(ranks->optimizer(0).steps_taken(), 0);
    SetGradients(*ranks, 1e-4f);
    const StepReport taken = StepAll(*ranks);
    EXPECT_FALSE(taken.skipped);
    EXPECT_EQ(taken.step, 1);
    EXPECT_NEAR(taken.norm, 1e-4 * std::sqrt(57.0), 1e-6);
  }
}

TEST(ZeroSettingsTest, AnOverflowAtTheSmallestScaleIsAnError) {
  ZeroConfig config = Config(ZeroStage::kOne, DType::kFloat16);
  config.loss_scale = DynamicLossScale();
  config.loss_scale.scale = 2;
  config.loss_scale.hysteresis = 1;
  const auto ranks = MakeRanks(2, config);
  for (const bool ends : {false, true}) {
    SetGradients(*ranks, std::numeric_limits<float>::infinity());
    for (const auto& report : ranks->Step()) {
      if (ends) {
        EXPECT_THAT(report.status(),
                    StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("smallest loss scale")));
      } else {
        EXPECT_OK(report.status());
      }
    }
  }
}

TEST(ZeroSettingsTest, AProgressThreadThatIsAskedForAndCannotBeIsAnError) {
  ZeroConfig config = Config(ZeroStage::kOne, DType::kFloat32);
  config.progress_thread = ProgressThreadUse::kOn;
  EXPECT_THAT(SimRanks::Create(2, "", {{"w", {50}}}, config),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("progress thread")));
  // Nobody insists on it here.
  config.progress_thread = ProgressThreadUse::kAuto;
  config.overlap_communication = true;
  EXPECT_OK(SimRanks::Create(2, "", {{"w", {50}}}, config).status());
}

TEST(ZeroSettingsTest, AProgressThreadThatIsAskedForBesideGroupsOfRanksIsAnError) {
  ZeroConfig config = Config(ZeroStage::kTwo, DType::kFloat32);
  config.shard_group_size = 2;
  config.progress_thread = ProgressThreadUse::kOn;
  EXPECT_THAT(SimRanks::Create(4, "", {{"w", {50}}}, config),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("progress thread"), HasSubstr("shard_group_size"))));
  config.progress_thread = ProgressThreadUse::kAuto;
  EXPECT_OK(SimRanks::Create(4, "", {{"w", {50}}}, config).status());
}

// What knows one communicator alone is left out, whatever is asked for.
TEST(ZeroSettingsTest, WithGroupsOfRanksStepsAreNotFusedAndEndWithTheirGathers) {
  for (const ZeroStage stage : {ZeroStage::kOne, ZeroStage::kTwo}) {
    for (const char* algorithms : {"", SimRanks::kSharedMemory}) {
      std::string expected;
      for (const bool asked : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "stage " << stage << " " << algorithms << asked);
        ZeroConfig config = Config(stage, DType::kBFloat16);
        config.shard_group_size = 2;
        config.overlap_communication = true;
        config.fuse_step = asked;
        config.gather_behind_forward = asked;
        const auto ranks = MakeRanks(4, config, algorithms);
        for (int step = 0; step < 3; ++step) {
          SetGradients(*ranks, 0.25f + 0.001f * static_cast<float>(step));
          const StepReport report = StepAll(*ranks);
          for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(ranks->optimizer(rank).IsGathered(0));
          EXPECT_EQ(report.payload_bytes, ranks->optimizer(0).ExpectedWire()->payload_bytes());
        }
        const std::string bits = ranks->StateBits(3);
        if (expected.empty()) expected = bits;
        EXPECT_TRUE(bits == expected);
      }
    }
  }
}

TEST(ZeroSettingsTest, TheScheduleGivesTheRateOfAStepThatHasNone) {
  ZeroConfig config = Config(ZeroStage::kOne, DType::kFloat32);
  config.schedule = {.kind = ScheduleKind::kWarmup,
                     .warmup = WarmupShape::kLinear,
                     .warmup_steps = 4,
                     .min_rate = 0.5,
                     .max_rate = 0.9};
  const auto ranks = MakeRanks(2, config);
  for (const double rate : {0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9}) {
    EXPECT_DOUBLE_EQ(ranks->optimizer(1).learning_rate(), rate);
    SetGradients(*ranks, 1);
    EXPECT_DOUBLE_EQ(StepAll(*ranks).learning_rate, rate);
  }
  EXPECT_EQ(ranks->Step({0.25})[1]->learning_rate, 0.25);
}

}  // namespace
}  // namespace rz
