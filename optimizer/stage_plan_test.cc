#include "optimizer/stage_plan.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr int64_t kPaperModel = 7'500'000'000;

PlannedRoutes Routes(DType reduce, DType gather) {
  PlannedRoutes routes;
  routes.all_reduce.wire = reduce;
  routes.reduce_scatter.wire = reduce;
  routes.all_gather.wire = gather;
  return routes;
}

std::vector<StagePlan> PlanAll(const PlannedModel& model,
                               const PlannedRoutes& routes = Routes(DType::kBFloat16,
                                                                    DType::kBFloat16)) {
  std::vector<StagePlan> plans;
  for (const ZeroStage stage : kPlannedStages) {
    const absl::StatusOr<StagePlan> plan = PlanStage(model, stage, routes);
    EXPECT_OK(plan.status());
    plans.push_back(*plan);
  }
  return plans;
}

const StagePlan& Of(const std::vector<StagePlan>& plans, ZeroStage stage) {
  return plans[static_cast<size_t>(stage)];
}

TEST(GroupedPlanTest, StatesAreSharedInAGroupAndShardsReducedOverAll) {
  const PlannedRoutes routes = [] {
    Carriage carriage;
    carriage.wire = DType::kBFloat16;
    return PlannedRoutes{carriage, carriage, carriage};
  }();
  const PlannedModel model = {.parameters = 6400, .world = 8, .group_size = 4};
  ASSERT_OK_AND_ASSIGN(const StagePlan plan, PlanStage(model, ZeroStage::kThree, routes));
  EXPECT_EQ(plan.memory().bytes(), 16 * 6400 / 4);
  EXPECT_EQ(plan.wire.reduce_bytes + plan.wire.gather_bytes, 3 * 3 * 1600 * 2);
  EXPECT_EQ(plan.wire.between_bytes, 2 * 800 * 2);
  ASSERT_OK_AND_ASSIGN(const StagePlan ddp, PlanStage(model, ZeroStage::kDdp, routes));
  EXPECT_EQ(ddp.shape.world, 8);
  EXPECT_EQ(ddp.wire.between_bytes, 0);
}

TEST(StagePlanTest, WireIsTheStagesMultipleOfOneHalf) {
  const std::vector<StagePlan> plans = PlanAll({.parameters = kPaperModel, .world = 64});
  ASSERT_EQ(kPaperModel % 64, 0);
  const int64_t half = 63 * (kPaperModel / 64) * 2;
  for (const auto& [stage, halves] :
       std::vector<std::pair<ZeroStage, int64_t>>{{ZeroStage::kDdp, 2},
                                                  {ZeroStage::kNaive, 3},
                                                  {ZeroStage::kOne, 2},
                                                  {ZeroStage::kTwo, 2},
                                                  {ZeroStage::kThree, 3}}) {
    EXPECT_EQ(Of(plans, stage).wire.payload_bytes(), halves * half) << stage;
    EXPECT_EQ(Of(plans, stage).shape.stage, stage);
  }
}

TEST(StagePlanTest, WhatIsNoMultipleOfTheRanksIsRoundedUpOnTheWireAlone) {
  const std::vector<StagePlan> plans = PlanAll({.parameters = 10, .world = 4});
  EXPECT_EQ(Of(plans, ZeroStage::kOne).wire.payload_bytes(), 2 * 3 * 3 * 2);
  EXPECT_EQ(Of(plans, ZeroStage::kThree).memory(), (ByteShare{160, 4}));
}

TEST(StagePlanTest, PartialSumsInFloat32CostTheirBytes) {
  const std::vector<StagePlan> plans =
      PlanAll({.parameters = 400, .world = 4}, Routes(DType::kFloat32, DType::kBFloat16));
  EXPECT_EQ(Of(plans, ZeroStage::kOne).wire.payload_bytes(), 300 * (4 + 2));
  EXPECT_EQ(Of(plans, ZeroStage::kThree).wire.payload_bytes(), 300 * (4 + 2 + 2));
  EXPECT_EQ(Of(plans, ZeroStage::kNaive).wire.payload_bytes(), 300 * (4 + 2 + 2));
}

TEST(StagePlanTest, ARouteWithoutAFormulaIsNamed) {
  PlannedRoutes routes = Routes(DType::kBFloat16, DType::kBFloat16);
  routes.reduce_scatter.least_bytes = false;
  routes.reduce_scatter.text = "telepathy";
  EXPECT_OK(PlanStage({.parameters = 8, .world = 2}, ZeroStage::kDdp, routes).status());
  EXPECT_THAT(PlanStage({.parameters = 8, .world = 2}, ZeroStage::kOne, routes).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("telepathy")));
}

// Rajbhandari et al., 2019, table 2: 64 ranks of 32 GB.
TEST(StagePlanTest, LargestModelsAreThePapers) {
  const std::vector<StagePlan> plans = PlanAll({.parameters = 1, .world = 64});
  const auto largest = [&](ZeroStage stage) {
    return static_cast<double>(LargestModel(Of(plans, stage).shape, 32'000'000'000)) / 1e9;
  };
  EXPECT_NEAR(largest(ZeroStage::kDdp), 2, 1e-9);
  EXPECT_NEAR(largest(ZeroStage::kOne), 7.64, 0.005);
  EXPECT_NEAR(largest(ZeroStage::kTwo), 14.4, 0.05);
  EXPECT_NEAR(largest(ZeroStage::kThree), 128, 1e-9);
}

TEST(StagePlanTest, TheLargestModelFitsAndOneMoreDoesNot) {
  for (const ZeroStage stage : kPlannedStages) {
    for (const int64_t budget : {1'000'003, 7'654'321}) {
      PlannedModel model = {.parameters = 1, .world = 5};
      const auto plan = [&] {
        return PlanStage(model, stage, Routes(DType::kBFloat16, DType::kBFloat16)).value();
      };
      model.parameters = LargestModel(plan().shape, budget);
      EXPECT_TRUE(Fits(plan(), budget)) << stage;
      ++model.parameters;
      EXPECT_FALSE(Fits(plan(), budget)) << stage;
    }
  }
}

TEST(StagePlanTest, FitsToTheByte) {
  const StagePlan plan = PlanAll({.parameters = 10, .world = 3})[4];  // 160 / 3
  EXPECT_FALSE(Fits(plan, 53));
  EXPECT_TRUE(Fits(plan, 54));
  const StagePlan even = PlanAll({.parameters = 12, .world = 3})[4];  // 64
  EXPECT_TRUE(Fits(even, 64));
  EXPECT_FALSE(Fits(even, 63));
  EXPECT_TRUE(Fits(even, std::nullopt));
}

TEST(StagePlanTest, RanksNeededHoldItAndOneLessDoesNot) {
  const ModelShape shape = PlanAll({.parameters = kPaperModel, .world = 4})[2].shape;
  EXPECT_EQ(RanksNeeded(shape, 1'000'000'000), 120);
  EXPECT_EQ(RanksNeeded(shape, 1'000'000'001), 120);
  EXPECT_EQ(RanksNeeded(shape, 999'999'999), 121);
}

TEST(StagePlanTest, TheLeastShardingThatFitsIsRecommended) {
  const std::vector<StagePlan> plans = PlanAll({.parameters = kPaperModel, .world = 64});
  EXPECT_THAT(Recommend(plans, std::nullopt), Optional(ZeroStage::kOne));
  EXPECT_THAT(Recommend(plans, 200'000'000'000), Optional(ZeroStage::kOne));
  EXPECT_THAT(Recommend(plans, 32'000'000'000), Optional(ZeroStage::kOne));
  EXPECT_THAT(Recommend(plans, 30'000'000'000), Optional(ZeroStage::kTwo));
  EXPECT_THAT(Recommend(plans, 16'000'000'000), Optional(ZeroStage::kThree));
  EXPECT_THAT(Recommend(plans, 1'000'000'000), Eq(std::nullopt));
}

TEST(StagePlanTest, ARankAloneHasNothingToShard) {
  const std::vector<StagePlan> plans = PlanAll({.parameters = 100, .world = 1});
  EXPECT_THAT(Recommend(plans, 1600), Optional(ZeroStage::kDdp));
  EXPECT_THAT(Recommend(plans, 1599), Eq(std::nullopt));
  EXPECT_EQ(plans[4].wire.payload_bytes(), 0);
}

TEST(StagePlanTest, LimitsKeepEveryCountExact) {
  for (const StagePlan& plan : PlanAll({.parameters = kMaxPlannedParameters,
                               .world = kMaxPlannedRanks,
                               .dtype = DType::kFloat32})) {
    const double expected = static_cast<double>(kMaxPlannedParameters) * 16;
    EXPECT_GT(plan.memory().total, 0);
    EXPECT_LE(plan.memory().bytes(), expected);
    EXPECT_GT(plan.wire.payload_bytes(), 0);
  }
}

TEST(StagePlanTest, TimesFollowTheFormula) {
  const StagePlan plan = PlanAll({.parameters = 1'000'000'000, .world = 2})[2];
  EXPECT_EQ(plan.wire.payload_bytes(), 2'000'000'000);
  const PlannedMachine machine = {.flops = 60e12, .bandwidth = 25e9, .tokens = 2000};
  const StepTime time = PredictStep(plan, machine);
  EXPECT_EQ(time.compute, absl::Milliseconds(200));
  EXPECT_EQ(time.communication, absl::Milliseconds(80));
  EXPECT_EQ(time.apart(), absl::Milliseconds(280));
  EXPECT_EQ(time.overlapped(), absl::Milliseconds(200));
}

TEST(StagePlanTest, WhatIsNotKnownIsNotPredicted) {
  const StagePlan plan = PlanAll({.parameters = 1000, .world = 2})[2];
  const StepTime wire = PredictStep(plan, {.bandwidth = 1e9});
  EXPECT_FALSE(wire.compute.has_value());
  EXPECT_TRUE(wire.communication.has_value());
  EXPECT_FALSE(wire.apart().has_value());
  EXPECT_FALSE(wire.overlapped().has_value());
}

}  // namespace
}  // namespace rz
