#include "optimizer/zero_optimizer.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ZeroConfig Config(ZeroStage stage, DType dtype = DType::kFloat32) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtype;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 1;
  return config;
}

std::unique_ptr<SimRanks> MakeRanks(int world, const std::vector<ParamSpec>& specs,
                                    const ZeroConfig& config) {
  auto ranks = SimRanks::Create(world, "", specs, config);
  EXPECT_OK(ranks.status());
  const auto initializer = [](size_t index, absl::Span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(index + 1) + 0.001f * static_cast<float>(i);
    }
  };
  for (const absl::Status& status : (*ranks)->Initialize(initializer)) EXPECT_OK(status);
  return *std::move(ranks);
}

void SetGradients(SimRanks& ranks, int rank, float value) {
  const FlatLayout& layout = ranks.optimizer(rank).layout();
  for (size_t p = 0; p < layout.size(); ++p) {
    for (size_t i = 0; i < static_cast<size_t>(layout.range(p).count); ++i) {
      ranks.SetGradient(rank, p, i, value);
    }
  }
}

TEST(ZeroOptimizerTest, InitializeGivesEveryRankTheValuesOfRankZero) {
  const auto ranks = MakeRanks(3, {{"a", {100}}, {"b", {7}}}, Config(ZeroStage::kOne));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks->Parameter(rank, 0, 99), 1.0f + 0.001f * 99);
    EXPECT_EQ(ranks->Parameter(rank, 1, 0), 2.0f);
  }
  const std::string bits = ranks->StateBits(0);
  EXPECT_EQ(ranks->StateBits(2), bits);
}

// AdamW in double, as in the paper.
struct Reference {
  double p, m = 0, v = 0;
  void Step(double g, double lr, int t, const OptimizerConfig& c) {
    m = c.beta1 * m + (1 - c.beta1) * g;
    v = c.beta2 * v + (1 - c.beta2) * g * g;
    p -= lr * c.weight_decay * p;
    p -= lr * (m / (1 - std::pow(c.beta1, t))) /
         (std::sqrt(v / (1 - std::pow(c.beta2, t))) + c.epsilon);
  }
};

TEST(ZeroOptimizerTest, StepsAreAdamWOfTheMeanGradient) {
  for (const ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne}) {
    const ZeroConfig config = Config(stage);
    const auto ranks = MakeRanks(3, {{"w", {50}}}, config);
    std::vector<Reference> reference;
    for (size_t i = 0; i < 50; ++i) reference.push_back({ranks->Parameter(0, 0, i)});
    for (int t = 1; t <= 20; ++t) {
      const double lr = 0.1 / t;
      double squares = 0;
      for (size_t i = 0; i < 50; ++i) {
        double sum = 0;
        for (int rank = 0; rank < 3; ++rank) {
          const float g = static_cast<float>(std::sin(static_cast<double>(i) + 10.0 * rank + t));
          ranks->SetGradient(rank, 0, i, g);
          sum += g;
        }
        squares += sum * sum / 9;
        reference[i].Step(sum / 3, lr, t, config.optimizer);
      }
      const auto reports = ranks->Step({lr});
      ASSERT_OK(reports[2].status());
      EXPECT_NEAR(reports[2]->norm, std::sqrt(squares), 1e-5);
    }
    for (size_t i = 0; i < 50; ++i) {
      EXPECT_NEAR(ranks->Parameter(1, 0, i), reference[i].p, 1e-5) << "stage " << stage;
    }
  }
}

// Least squares y = w x with samples shared unevenly; loss is half the mean squared error.
double Regress(int world, std::vector<float>* weights) {
  constexpr int kSamples = 25, kFeatures = 6;
  const auto x = [](int s, int f) { return std::cos(1.3 * s + 0.7 * f * f); };
  const auto ranks = MakeRanks(world, {{"w", {kFeatures}}}, Config(ZeroStage::kOne));
  double loss = 0;
  for (int step = 0; step < 60; ++step) {
    loss = 0;
    for (int rank = 0; rank < world; ++rank) {
      const Range mine = EvenSplit(kSamples, world, rank);
      std::vector<double> gradient(kFeatures);
      for (int s = static_cast<int>(mine.offset); s < mine.end(); ++s) {
        double error = 0;
        for (int f = 0; f < kFeatures; ++f) {
          error += x(s, f) * (ranks->Parameter(rank, 0, static_cast<size_t>(f)) - (f - 2));
        }
        loss += error * error / (2 * kSamples);
        for (int f = 0; f < kFeatures; ++f) gradient[static_cast<size_t>(f)] += error * x(s, f);
      }
      for (size_t f = 0; f < kFeatures; ++f) {
        ranks->SetGradient(rank, 0, f,
                           static_cast<float>(gradient[f] * GradientScale(world, kSamples)));
      }
    }
    for (const auto& report : ranks->Step({0.1})) EXPECT_OK(report.status());
  }
  for (size_t f = 0; f < kFeatures; ++f) weights->push_back(ranks->Parameter(0, 0, f));
  return loss;
}

TEST(ZeroOptimizerTest, ManyRanksWithUnevenSamplesTrainLikeOne) {
  std::vector<float> alone;
  const double loss_alone = Regress(1, &alone);
  EXPECT_LT(loss_alone, 0.5);
  for (const int world : {2, 3, 4, 7}) {
    std::vector<float> together;
    EXPECT_NEAR(Regress(world, &together), loss_alone, 1e-5);
    for (size_t f = 0; f < alone.size(); ++f) EXPECT_NEAR(together[f], alone[f], 1e-4);
  }
}

TEST(ZeroOptimizerTest, OneRanksNanSkipsTheStepOnAllAndNamesTheParameter) {
  for (const ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      const auto ranks =
          MakeRanks(4, {{"first", {300}}, {"second", {40}}, {"third", {5}}}, Config(stage, dtype));
      for (int rank = 0; rank < 4; ++rank) SetGradients(*ranks, rank, 0.5f);
      ASSERT_OK(ranks->Step({0.1})[0].status());
      const std::string before = ranks->StateBits(0);

      for (int rank = 0; rank < 4; ++rank) SetGradients(*ranks, rank, 0.5f);
      ranks->SetGradient(2, 1, 17, kNan);
      ranks->SetGradient(2, 0, 299, std::numeric_limits<float>::infinity());
      for (const auto& report : ranks->Step({0.1})) {
        ASSERT_OK(report.status());
        EXPECT_TRUE(report->skipped);
        EXPECT_EQ(report->step, 1);
        EXPECT_EQ(report->non_finite_count, 2);
        EXPECT_EQ(report->first_non_finite_parameter, "second");
        EXPECT_FALSE(std::isfinite(report->norm));
      }
      for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(ranks->StateBits(rank) == before);

      for (int rank = 0; rank < 4; ++rank) SetGradients(*ranks, rank, 0.5f);
      for (const auto& report : ranks->Step({0.1})) {
        ASSERT_OK(report.status());
        EXPECT_FALSE(report->skipped);
        EXPECT_EQ(report->step, 2);
      }
      EXPECT_FALSE(ranks->StateBits(0) == before);
    }
  }
}

TEST(ZeroOptimizerTest, SumsThatOverflowSixteenBitsAreDividedFirst) {
  const auto ranks = MakeRanks(4, {{"w", {10}}}, Config(ZeroStage::kOne, DType::kFloat16));
  for (int rank = 0; rank < 4; ++rank) SetGradients(*ranks, rank, 60000.0f);
  const auto reports = ranks->Step({0.1});
  ASSERT_OK(reports[0].status());
  EXPECT_FALSE(reports[0]->skipped);
  EXPECT_DOUBLE_EQ(reports[0]->norm, 60000 * std::sqrt(10.0));
}

TEST(ZeroOptimizerTest, AModelWithoutElementsSteps) {
  for (const ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne}) {
    const auto ranks = MakeRanks(3, {{"none", {0}}}, Config(stage));
    const auto reports = ranks->Step({0.1});
    ASSERT_OK(reports[0].status());
    EXPECT_EQ(reports[0]->step, 1);
    EXPECT_EQ(reports[0]->norm, 0);
    EXPECT_EQ(reports[0]->payload_bytes, 0);
  }
}

TEST(ZeroOptimizerTest, ARankWithOtherSettingsIsNamedBeforeAnyParameterMoves) {
  auto ranks = SimRanks::Create(3, "", {{"w", {10}}}, Config(ZeroStage::kOne),
                                [](int rank, ZeroConfig* config) {
                                  if (rank == 1) config->optimizer.weight_decay = 0.5;
                                });
  ASSERT_OK(ranks.status());
  for (const absl::Status& status : (*ranks)->Initialize([](size_t, absl::Span<float>) {})) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("rank 1"), HasSubstr("plan"))));
  }
}

TEST(ZeroOptimizerTest, ARankWithAnotherLearningRateIsNamedAndNothingChanges) {
  const auto ranks = MakeRanks(3, {{"w", {10}}}, Config(ZeroStage::kOne));
  const std::string before = ranks->StateBits(0);
  for (int rank = 0; rank < 3; ++rank) SetGradients(*ranks, rank, 1);
  for (const auto& report : ranks->Step({0.1, 0.1, 0.2})) {
    EXPECT_THAT(report.status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          AllOf(HasSubstr("rank 2"), HasSubstr("0.2"))));
  }
  EXPECT_TRUE(ranks->StateBits(0) == before);
}

TEST(ZeroOptimizerTest, ALostRankEndsTheStepOfTheOthersAndChangesNothing) {
  for (const ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne}) {
    const auto ranks = MakeRanks(3, {{"w", {500}}}, Config(stage, DType::kBFloat16));
    for (int rank = 0; rank < 3; ++rank) SetGradients(*ranks, rank, 1);
    const std::string before = ranks->StateBits(0);
    ranks->Kill(1);
    const auto reports = ranks->Step({0.1});
    for (const int survivor : {0, 2}) {
      EXPECT_THAT(reports[static_cast<size_t>(survivor)],
                  StatusIs(absl::StatusCode::kUnavailable, HasSubstr("1")));
      EXPECT_TRUE(ranks->StateBits(survivor) == before);
      EXPECT_THAT(ranks->optimizer(survivor).StartStep({}),
                  StatusIs(absl::StatusCode::kUnavailable));
    }
  }
}

TEST(ZeroOptimizerTest, DestroyedDuringAStepItFailsTheCommunicatorAndLetsGo) {
  const auto ranks = MakeRanks(2, {{"w", {500}}}, Config(ZeroStage::kOne));
  ASSERT_OK(ranks->optimizer(0).StartStep({}));
  EXPECT_FALSE(ranks->optimizer(0).Poll());
  ranks->Destroy(0);
  EXPECT_THAT(ranks->communicator(0).status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("destroyed")));
}

TEST(ZeroOptimizerTest, OrderOfCallsIsChecked) {
  auto ranks = SimRanks::Create(1, "", {{"w", {10}}}, Config(ZeroStage::kOne));
  ASSERT_OK(ranks.status());
  ZeroOptimizer& optimizer = (*ranks)->optimizer(0);
  EXPECT_THAT(optimizer.Step({}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("initialized")));
  ASSERT_OK(optimizer.Initialize([](size_t, absl::Span<float>) {}));
  EXPECT_THAT(optimizer.Step({.learning_rate = -1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(optimizer.Step({.learning_rate = kNan}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK(optimizer.StartStep({}));
  EXPECT_THAT(optimizer.StartStep({}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("a step under way")));
  EXPECT_OK((*ranks)->PollAll());
  ASSERT_OK_AND_ASSIGN(const StepReport report, optimizer.StepResult());
  EXPECT_EQ(report.step, 1);
}

TEST(ZeroOptimizerTest, InitializingAgainStartsOver) {
  const auto ranks = MakeRanks(2, {{"w", {10}}}, Config(ZeroStage::kOne, DType::kBFloat16));
  const std::string fresh = ranks->StateBits(0);
  for (int rank = 0; rank < 2; ++rank) SetGradients(*ranks, rank, 1);
  ASSERT_OK(ranks->Step({0.1})[0].status());
  EXPECT_FALSE(ranks->StateBits(0) == fresh);
  const auto initializer = [](size_t, absl::Span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f + 0.001f * static_cast<float>(i);
  };
  for (const absl::Status& status : ranks->Initialize(initializer)) ASSERT_OK(status);
  EXPECT_TRUE(ranks->StateBits(0) == fresh);
  EXPECT_EQ(ranks->optimizer(1).steps_taken(), 0);
}

TEST(ZeroOptimizerTest, GradientsAreViewsOfOneBufferAndCanBeZeroed) {
  const auto ranks = MakeRanks(1, {{"a", {40}}, {"b", {3}}}, Config(ZeroStage::kDdp));
  SetGradients(*ranks, 0, 3);
  ZeroOptimizer& optimizer = ranks->optimizer(0);
  EXPECT_EQ(optimizer.Grads<float>(0).data() - optimizer.Grads<float>(1).data(), 32);
  optimizer.ZeroGradients();
  EXPECT_EQ(optimizer.Grads<float>(0)[39], 0);
}

TEST(ZeroOptimizerTest, WhatIsRefusedBeginsNoStep) {
  const auto ranks = MakeRanks(1, {{"w", {100}}}, Config(ZeroStage::kThree));
  ZeroOptimizer& optimizer = ranks->optimizer(0);
  EXPECT_THAT(optimizer.AddGradient(7, std::vector<float>(100)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(optimizer.AddGradient(0, std::vector<float>(99)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(optimizer.StartGather(1, Pass::kForward),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(optimizer.Gather(0, Pass::kEvaluation));
}

}  // namespace
}  // namespace rz
