#include "optimizer/wire_plan.h"

#include <optional>
#include <utility>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

WireRoutes Routes(std::optional<DType> reduce, std::optional<DType> gather) {
  WireRoutes routes;
  routes.reduce.wire = reduce;
  routes.gather.wire = gather;
  routes.control.wire = gather;
  return routes;
}

TEST(WirePlanTest, BothHalvesSendWhatTheOthersOwnOrLack) {
  ASSERT_OK_AND_ASSIGN(const WirePlan pairwise,
                       PlanWire(ZeroStage::kOne, 4, 247808, DType::kBFloat16,
                                Routes(DType::kBFloat16, DType::kBFloat16)));
  EXPECT_EQ(pairwise.reduce_bytes, 3 * 61952 * 2);
  EXPECT_EQ(pairwise.gather_bytes, 3 * 61952 * 2);
  EXPECT_EQ(pairwise.payload_bytes(), 743424);
  EXPECT_THAT(pairwise.explanation, HasSubstr("743424"));
}

TEST(WirePlanTest, PartialSumsOfADeterministicRingCostTheirOwnType) {
  for (ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kOne}) {
    ASSERT_OK_AND_ASSIGN(const WirePlan ring, PlanWire(stage, 4, 247808, DType::kBFloat16,
                                                       Routes(DType::kFloat32, DType::kBFloat16)));
    EXPECT_EQ(ring.reduce_bytes, 3 * 61952 * 4);
    EXPECT_EQ(ring.gather_bytes, 3 * 61952 * 2);
  }
}

TEST(WirePlanTest, NothingTravelsAloneOrThroughSharedMemory) {
  for (ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kOne}) {
    ASSERT_OK_AND_ASSIGN(const WirePlan alone, PlanWire(stage, 1, 1024, DType::kFloat32,
                                                        Routes(DType::kFloat32, DType::kFloat32)));
    EXPECT_EQ(alone.payload_bytes() + alone.control_bytes, 0);
    ASSERT_OK_AND_ASSIGN(const WirePlan shared, PlanWire(stage, 4, 1024, DType::kFloat32,
                                                         Routes(std::nullopt, std::nullopt)));
    EXPECT_EQ(shared.payload_bytes() + shared.control_bytes, 0);
  }
}

TEST(WirePlanTest, AnAlgorithmWithoutAFormulaIsNamed) {
  WireRoutes routes = Routes(DType::kFloat32, DType::kFloat32);
  routes.reduce.least_bytes = false;
  routes.reduce.text = "telepathy";
  EXPECT_THAT(PlanWire(ZeroStage::kOne, 4, 1024, DType::kFloat32, routes),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("telepathy")));
  std::swap(routes.reduce, routes.gather);
  EXPECT_THAT(PlanWire(ZeroStage::kOne, 4, 1024, DType::kFloat32, routes),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("telepathy")));
  // It gathers nothing.
  EXPECT_OK(PlanWire(ZeroStage::kDdp, 4, 1024, DType::kFloat32, routes));
}

}  // namespace
}  // namespace rz
