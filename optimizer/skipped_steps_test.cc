// Steps whose gradients are not finite, one after the other: how many of them end a run.
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
using ::testing::Not;

constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne,
                                 ZeroStage::kTwo, ZeroStage::kThree};
constexpr int kWorld = 3;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const std::vector<ParamSpec>& Specs() {
  static const auto* specs = new std::vector<ParamSpec>{{"w", {50}, 0}, {"b", {7}, 1}};
  return *specs;
}

ZeroConfig Config(ZeroStage stage, DType dtype = DType::kBFloat16) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtype;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 100;
  config.announce_gradients = true;
  return config;
}

void Initialize(SimRanks& ranks) {
  const auto initializer = [](size_t, absl::Span<float> values) {
    for (float& value : values) value = 1;
  };
  for (const absl::Status& status : ranks.Initialize(initializer)) EXPECT_OK(status);
}

std::unique_ptr<SimRanks> MakeRanks(const ZeroConfig& config, const char* algorithms = "") {
  auto ranks = SimRanks::Create(kWorld, algorithms, Specs(), config);
  EXPECT_OK(ranks.status());
  Initialize(**ranks);
  return *std::move(ranks);
}

// One step of all ranks: gradients are 2^-10 but for `bad` in parameter b of rank 2.
std::vector<absl::StatusOr<StepReport>> StepWith(SimRanks& ranks, float bad) {
  for (int rank = 0; rank < kWorld; ++rank) {
    for (size_t p = 0; p < Specs().size(); ++p) {
      for (size_t i = 0; i < static_cast<size_t>(Specs()[p].shape[0]); ++i) {
        ranks.SetGradient(rank, p, i, 0x1p-10f);
      }
    }
  }
  ranks.SetGradient(2, 1, 6, bad);
  return ranks.Step();
}

void ExpectSkipped(SimRanks& ranks, int times, float bad = kNan) {
  for (int i = 0; i < times; ++i) {
    for (const auto& report : StepWith(ranks, bad)) {
      ASSERT_OK(report.status());
      EXPECT_TRUE(report->skipped);
    }
  }
}

template <typename Matcher>
void ExpectEnds(SimRanks& ranks, const Matcher& message, float bad = kNan) {
  for (const auto& report : StepWith(ranks, bad)) {
    EXPECT_THAT(report.status(), StatusIs(absl::StatusCode::kOutOfRange, message));
  }
}

void ResumeAll(SimRanks& ranks, int64_t steps) {
  for (int rank = 0; rank < kWorld; ++rank) ASSERT_OK(ranks.optimizer(rank).Resume(steps));
}

TEST(SkippedStepsTest, TheTenthInARowEndsTheRunOnEveryRank) {
  for (const ZeroStage stage : kStages) {
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    const auto ranks = MakeRanks(Config(stage));
    EXPECT_FALSE(StepWith(*ranks, 0)[0]->skipped);
    ExpectSkipped(*ranks, 9);
    ExpectEnds(*ranks, AllOf(HasSubstr("10 steps in a row were skipped, after 1 steps taken"),
                             HasSubstr("1 element of the mean gradient is not finite, the first "
                                       "in b; rank 2's gradient of b is not finite"),
                             HasSubstr("lower learning rate"), HasSubstr("max_skipped_steps")));
  }
}

// In shared memory: by a fused step of stage 1 and by the others' own ways.
TEST(SkippedStepsTest, WhereRanksShareMemoryTheSameIsSaid) {
  for (const ZeroStage stage : kStages) {
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    ZeroConfig config = Config(stage);
    config.fuse_step = true;
    const auto ranks = MakeRanks(config, SimRanks::kSharedMemory);
    EXPECT_FALSE(StepWith(*ranks, 0)[0]->skipped);
    const std::string before = ranks->StateBits(1);
    const auto reports = StepWith(*ranks, kInfinity);
    for (const auto& report : reports) {
      ASSERT_OK(report.status());
      EXPECT_TRUE(report->skipped);
      EXPECT_EQ(report->non_finite_count, 1);
      EXPECT_EQ(report->first_non_finite_parameter, "b");
      EXPECT_THAT(report->non_finite_cause, HasSubstr("rank 2's gradient of b"));
    }
    EXPECT_TRUE(ranks->StateBits(1) == before);
  }
}

TEST(SkippedStepsTest, GradientsThatAreNotInspectedAreTakenAsTheyAre) {
  ZeroConfig config = Config(ZeroStage::kOne);
  std::string bits[2];
  for (const bool inspected : {true, false}) {
    config.inspect_gradients = inspected;
    const auto ranks = MakeRanks(config, SimRanks::kSharedMemory);
    const auto reports = StepWith(*ranks, 0.5f);
    ASSERT_OK(reports[0].status());
    EXPECT_EQ(std::isnan(reports[0]->norm), !inspected);
    bits[inspected] = ranks->StateBits(0);
    EXPECT_EQ(StepWith(*ranks, kNan)[0]->skipped, inspected);
  }
  EXPECT_TRUE(bits[0] == bits[1]);
}

TEST(SkippedStepsTest, AStepThatIsTakenBeginsTheCountAnew) {
  ZeroConfig config = Config(ZeroStage::kTwo);
  config.max_skipped_steps = 3;
  const auto ranks = MakeRanks(config);
  for (int64_t taken = 1; taken <= 3; ++taken) {
    ExpectSkipped(*ranks, 2);
    EXPECT_EQ(StepWith(*ranks, 0)[1]->step, taken);
  }
  ExpectSkipped(*ranks, 2);
  Initialize(*ranks);
  ExpectSkipped(*ranks, 2);
  ExpectEnds(*ranks, HasSubstr("3 steps in a row were skipped, after 0 steps taken"));
}

TEST(SkippedStepsTest, ZeroLetsAnyNumberBeSkipped) {
  ZeroConfig config = Config(ZeroStage::kOne);
  config.max_skipped_steps = 0;
  ExpectSkipped(*MakeRanks(config), 40);
}

TEST(SkippedStepsTest, AFixedLossScaleCounts) {
  ZeroConfig config = Config(ZeroStage::kOne, DType::kFloat16);
  config.loss_scale.scale = 65536;
  const auto ranks = MakeRanks(config);
  ExpectSkipped(*ranks, 9, kInfinity);
  ExpectEnds(*ranks, HasSubstr("10 steps in a row"), kInfinity);
}

// From 2^16 the scale may have to come down more than ten times before the first step is taken.
TEST(SkippedStepsTest, TheWayDownOfADynamicLossScaleDoesNotCount) {
  for (const ZeroStage stage : kStages) {
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    ZeroConfig config = Config(stage, DType::kFloat16);
    config.loss_scale = DynamicLossScale();
    const auto ranks = MakeRanks(config);
    ExpectSkipped(*ranks, 15, kInfinity);
    EXPECT_EQ(ranks->optimizer(0).loss_scale(), 4);
    const auto reports = StepWith(*ranks, 0);
    ASSERT_OK(reports[0].status());
    EXPECT_FALSE(reports[0]->skipped);
    EXPECT_EQ(reports[0]->step, 1);
  }
}

// What was saved knows neither, so ranks that go on from it have both as at the start.
TEST(SkippedStepsTest, ResumingBeginsTheLossScaleAndTheCountAnew) {
  ZeroConfig config = Config(ZeroStage::kOne, DType::kFloat16);
  config.loss_scale = DynamicLossScale();
  const auto scaled = MakeRanks(config);
  ExpectSkipped(*scaled, 5, kInfinity);
  ASSERT_LT(scaled->optimizer(0).loss_scale(), config.loss_scale.scale);
  ResumeAll(*scaled, 7);
  EXPECT_EQ(scaled->optimizer(0).loss_scale(), config.loss_scale.scale);
  EXPECT_EQ(StepWith(*scaled, 0)[0]->step, 8);

  config = Config(ZeroStage::kTwo);
  config.max_skipped_steps = 3;
  const auto counted = MakeRanks(config);
  ExpectSkipped(*counted, 2);
  ResumeAll(*counted, 0);
  ExpectSkipped(*counted, 2);
  ExpectEnds(*counted, HasSubstr("3 steps in a row were skipped"));
}

// 1 for the hysteresis, 16 halvings.
TEST(SkippedStepsTest, TheEndOfADynamicLossScaleNamesParameterAndRank) {
  ZeroConfig config = Config(ZeroStage::kThree, DType::kFloat16);
  config.loss_scale = DynamicLossScale();
  const auto ranks = MakeRanks(config);
  ExpectSkipped(*ranks, 17);
  ExpectEnds(*ranks, AllOf(HasSubstr("smallest loss scale"), HasSubstr("After 0 steps taken"),
                           HasSubstr("rank 2's gradient of b is not finite")));
}

TEST(SkippedStepsTest, OfGradientsInViewsTheParameterIsNamed) {
  ZeroConfig config = Config(ZeroStage::kOne);
  config.announce_gradients = false;
  config.max_skipped_steps = 1;
  const auto ranks = MakeRanks(config);
  ExpectEnds(*ranks, AllOf(HasSubstr("the first in b."), Not(HasSubstr("rank 2"))));
}

}  // namespace
}  // namespace rz
