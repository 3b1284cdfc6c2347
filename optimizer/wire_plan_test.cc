#include "optimizer/wire_plan.h"

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

TEST(WirePlanTest, BothHalvesSendWhatTheOthersOwnOrLack) {
  const WirePlan pairwise =
      PlanWire(ZeroStage::kOne, 4, 247808, DType::kBFloat16, DType::kBFloat16);
  EXPECT_EQ(pairwise.reduce_bytes, 3 * 61952 * 2);
  EXPECT_EQ(pairwise.gather_bytes, 3 * 61952 * 2);
  EXPECT_EQ(pairwise.payload_bytes(), 743424);
  EXPECT_THAT(pairwise.explanation, HasSubstr("743424"));
}

TEST(WirePlanTest, PartialSumsOfADeterministicRingCostTheirOwnType) {
  const WirePlan ring = PlanWire(ZeroStage::kOne, 4, 247808, DType::kBFloat16, DType::kFloat32);
  EXPECT_EQ(ring.reduce_bytes, 3 * 61952 * 4);
  EXPECT_EQ(ring.gather_bytes, 3 * 61952 * 2);
}

TEST(WirePlanTest, OneRankSendsNothing) {
  const WirePlan alone = PlanWire(ZeroStage::kDdp, 1, 1024, DType::kFloat32, DType::kFloat32);
  EXPECT_EQ(alone.payload_bytes(), 0);
  EXPECT_EQ(alone.control_bytes, 0);
}

TEST(ReduceWireTypeTest, ReadsWhatTheCommunicatorSays) {
  ASSERT_OK_AND_ASSIGN(DType wire, ReduceWireType("ring (float32 partial sums)", DType::kBFloat16));
  EXPECT_EQ(wire, DType::kFloat32);
  ASSERT_OK_AND_ASSIGN(wire, ReduceWireType("pairwise", DType::kBFloat16));
  EXPECT_EQ(wire, DType::kBFloat16);
  ASSERT_OK_AND_ASSIGN(wire, ReduceWireType("ring", DType::kFloat16));
  EXPECT_EQ(wire, DType::kFloat16);
  EXPECT_THAT(ReduceWireType("telepathy", DType::kFloat16),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("telepathy")));
}

}  // namespace
}  // namespace rz
