#include "optimizer/wire_plan.h"

#include <optional>
#include <utility>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kElements = 247808;  // of 4 ranks

WireRoutes Routes(std::optional<DType> reduce, std::optional<DType> gather) {
  WireRoutes routes;
  routes.reduce.wire = reduce;
  routes.gather.wire = gather;
  routes.control.wire = gather;
  return routes;
}

WireShape Shape(ZeroStage stage, int64_t reduced = kElements, int64_t gathered = kElements) {
  return {.stage = stage,
          .world = 4,
          .gradient_dtype = DType::kBFloat16,
          .reduced_elements = reduced,
          .gathered_elements = stage == ZeroStage::kDdp ? 0 : gathered};
}

int64_t Payload(const WireShape& shape, DType reduce) {
  const absl::StatusOr<WirePlan> plan = PlanWire(shape, Routes(reduce, DType::kBFloat16));
  EXPECT_OK(plan.status());
  return plan->payload_bytes();
}

TEST(WirePlanTest, EachHalfSendsWhatTheOthersOwnOrLack) {
  ASSERT_OK_AND_ASSIGN(
      const WirePlan pairwise,
      PlanWire(Shape(ZeroStage::kOne), Routes(DType::kBFloat16, DType::kBFloat16)));
  EXPECT_EQ(pairwise.reduce_bytes, 3 * 61952 * 2);
  EXPECT_EQ(pairwise.spread_bytes, 0);
  EXPECT_EQ(pairwise.gather_bytes, 3 * 61952 * 2);
  EXPECT_EQ(pairwise.payload_bytes(), 743424);
  EXPECT_THAT(pairwise.explanation, HasSubstr("743424"));
}

TEST(WirePlanTest, GroupsSendShardsToEachOther) {
  WireShape shape = Shape(ZeroStage::kThree, kElements, 2 * kElements);
  shape.world = 2;
  shape.groups = 2;
  WireRoutes routes = Routes(DType::kBFloat16, DType::kBFloat16);
  routes.replicas.wire = DType::kFloat32;
  ASSERT_OK_AND_ASSIGN(const WirePlan plan, PlanWire(shape, routes));
  EXPECT_EQ(plan.reduce_bytes, 123904 * 2);
  EXPECT_EQ(plan.gather_bytes, 2 * 123904 * 2);
  // Partial sums of a ring, and the sums.
  EXPECT_EQ(plan.between_bytes, 61952 * 4 + 61952 * 2);
  EXPECT_EQ(plan.payload_bytes(), 3 * 123904 * 2 + 61952 * 6);
  EXPECT_EQ(plan.control_bytes, 3 * 72);
  EXPECT_THAT(plan.explanation, HasSubstr("1 other groups * (61952 elements"));
  routes.replicas.least_bytes = false;
  EXPECT_THAT(PlanWire(shape, routes), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("")));
}

TEST(WirePlanTest, StagesSendWhatTheTableSays) {
  const int64_t half = 3 * 61952 * 2;
  EXPECT_EQ(Payload(Shape(ZeroStage::kDdp), DType::kBFloat16), 2 * half);
  EXPECT_EQ(Payload(Shape(ZeroStage::kNaive), DType::kBFloat16), 3 * half);
  EXPECT_EQ(Payload(Shape(ZeroStage::kOne), DType::kBFloat16), 2 * half);
  EXPECT_EQ(Payload(Shape(ZeroStage::kTwo), DType::kBFloat16), 2 * half);
  EXPECT_EQ(Payload(Shape(ZeroStage::kThree, kElements, 2 * kElements), DType::kBFloat16),
            3 * half);
  // Reduced at each of 4 micro-steps.
  EXPECT_EQ(Payload(Shape(ZeroStage::kTwo, 4 * kElements), DType::kBFloat16), 5 * half);
}

TEST(WirePlanTest, PartialSumsOfADeterministicRingCostTheirOwnType) {
  for (ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne}) {
    ASSERT_OK_AND_ASSIGN(const WirePlan ring,
                         PlanWire(Shape(stage), Routes(DType::kFloat32, DType::kBFloat16)));
    EXPECT_EQ(ring.reduce_bytes, 3 * 61952 * 4);
    EXPECT_EQ(ring.spread_bytes, stage == ZeroStage::kOne ? 0 : 3 * 61952 * 2);
    EXPECT_EQ(ring.gather_bytes, stage == ZeroStage::kDdp ? 0 : 3 * 61952 * 2);
  }
}

TEST(WirePlanTest, NothingTravelsAloneOrThroughSharedMemory) {
  for (ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne}) {
    WireShape shape = Shape(stage);
    shape.world = 1;
    ASSERT_OK_AND_ASSIGN(const WirePlan alone,
                         PlanWire(shape, Routes(DType::kFloat32, DType::kFloat32)));
    EXPECT_EQ(alone.payload_bytes() + alone.control_bytes, 0);
    ASSERT_OK_AND_ASSIGN(const WirePlan shared,
                         PlanWire(Shape(stage), Routes(std::nullopt, std::nullopt)));
    EXPECT_EQ(shared.payload_bytes() + shared.control_bytes, 0);
  }
}

TEST(WirePlanTest, AnAlgorithmWithoutAFormulaIsNamed) {
  WireRoutes routes = Routes(DType::kFloat32, DType::kFloat32);
  routes.reduce.least_bytes = false;
  routes.reduce.text = "telepathy";
  EXPECT_THAT(PlanWire(Shape(ZeroStage::kOne), routes),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("telepathy")));
  std::swap(routes.reduce, routes.gather);
  EXPECT_THAT(PlanWire(Shape(ZeroStage::kOne), routes),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("telepathy")));
  // It gathers nothing.
  EXPECT_OK(PlanWire(Shape(ZeroStage::kDdp), routes));
}

}  // namespace
}  // namespace rz
