#include "runtime/base/dtype.h"

#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(DTypeTest, EveryNameParsesBackToItsType) {
  for (DType dtype : kAllDTypes) EXPECT_EQ(ParseDType(NameOf(dtype)), dtype);
  for (ReduceOp op : kAllReduceOps) EXPECT_EQ(ParseReduceOp(NameOf(op)), op);
}

TEST(DTypeTest, ToolsShortNamesAreAccepted) {
  EXPECT_EQ(ParseDType("bf16"), DType::kBFloat16);
  EXPECT_EQ(ParseDType("fp16"), DType::kFloat16);
  EXPECT_EQ(ParseDType("fp32"), DType::kFloat32);
}

TEST(DTypeTest, UnknownNamesAreNotGuessed) {
  EXPECT_EQ(ParseDType("float8"), std::nullopt);
  EXPECT_EQ(ParseDType(""), std::nullopt);
  EXPECT_EQ(ParseReduceOp("SUM"), std::nullopt);
}

TEST(DTypeTest, SixteenBitFloatsAccumulateInFloat32) {
  EXPECT_EQ(AccumulatorOf(DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(AccumulatorOf(DType::kFloat16), DType::kFloat32);
  EXPECT_EQ(AccumulatorOf(DType::kFloat64), DType::kFloat64);
  EXPECT_EQ(AccumulatorOf(DType::kInt32), DType::kInt32);
}

TEST(DTypeTest, SizesAreThoseOfTheWire) {
  EXPECT_EQ(SizeOf(DType::kBFloat16), 2u);
  EXPECT_EQ(SizeOf(DType::kFloat16), 2u);
  EXPECT_EQ(SizeOf(DType::kFloat32), 4u);
  EXPECT_EQ(SizeOf(DType::kInt32), 4u);
  EXPECT_EQ(SizeOf(DType::kFloat64), 8u);
  EXPECT_EQ(SizeOf(DType::kInt64), 8u);
}

}  // namespace
}  // namespace rz
