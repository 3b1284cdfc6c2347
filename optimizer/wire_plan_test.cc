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
  struct Case {
    const char* algorithm;
    DType wire;
  };
  for (const Case& c : {
           Case{"ring (float32 partial sums; as asked for)", DType::kFloat32},
           Case{"ring (float32 partial sums)", DType::kFloat32},
           Case{"ring_wire (bfloat16 partial sums; as asked for)", DType::kBFloat16},
           Case{"pairwise (bfloat16 inputs, float32 sums; a ring would carry 4-byte partial sums)",
                DType::kBFloat16},
       }) {
    ASSERT_OK_AND_ASSIGN(const DType wire, ReduceWireType(c.algorithm, DType::kBFloat16));
    EXPECT_EQ(wire, c.wire) << c.algorithm;
  }
}

TEST(ReduceWireTypeTest, AnAlgorithmWithoutAFormulaIsNamed) {
  for (const char* unknown : {"telepathy", "ring", "ring (odd partial sums)", ""}) {
    EXPECT_THAT(ReduceWireType(unknown, DType::kFloat16),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(unknown)));
  }
}

}  // namespace
}  // namespace rz
