#include "runtime/base/dtype.h"

#include <iterator>
#include <set>
#include <string_view>
#include <utility>

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
  EXPECT_EQ(ParseDType("fp8_e4m3"), DType::kFloat8E4M3);
  EXPECT_EQ(ParseDType("i8"), DType::kInt8);
  EXPECT_EQ(ParseDType("u64"), DType::kUint64);
}

TEST(DTypeTest, NamesOfNcclTestsAreAccepted) {
  const std::pair<std::string_view, DType> kNames[] = {
      {"int8", DType::kInt8},         {"uint8", DType::kUint8},
      {"int32", DType::kInt32},       {"uint32", DType::kUint32},
      {"int64", DType::kInt64},       {"uint64", DType::kUint64},
      {"half", DType::kFloat16},      {"float", DType::kFloat32},
      {"double", DType::kFloat64},    {"bfloat16", DType::kBFloat16},
      {"f8e4m3", DType::kFloat8E4M3}, {"f8e5m2", DType::kFloat8E5M2}};
  for (const auto& [name, dtype] : kNames) EXPECT_EQ(ParseDType(name), dtype) << name;
  EXPECT_EQ(ParseReduceOp("mulsum"), ReduceOp::kPremulSum);
  EXPECT_EQ(ParseReduceOp("prod"), ReduceOp::kProd);
}

TEST(DTypeTest, NamesAreUnambiguousAndTheTablesAreInTheOrderOfTheValues) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < std::size(kAllDTypes); ++i) {
    EXPECT_EQ(static_cast<size_t>(kAllDTypes[i]), i);
    EXPECT_TRUE(names.insert(NameOf(kAllDTypes[i])).second) << kAllDTypes[i];
  }
  for (size_t i = 0; i < std::size(kAllReduceOps); ++i) {
    EXPECT_EQ(static_cast<size_t>(kAllReduceOps[i]), i);
  }
}

TEST(DTypeTest, UnknownNamesAreNotGuessed) {
  EXPECT_EQ(ParseDType("float8"), std::nullopt);
  EXPECT_EQ(ParseDType(""), std::nullopt);
  EXPECT_EQ(ParseReduceOp("SUM"), std::nullopt);
}

TEST(DTypeTest, NarrowFloatsAccumulateInFloat32AllElseInItself) {
  EXPECT_EQ(AccumulatorOf(DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(AccumulatorOf(DType::kFloat16), DType::kFloat32);
  EXPECT_EQ(AccumulatorOf(DType::kFloat8E4M3), DType::kFloat32);
  EXPECT_EQ(AccumulatorOf(DType::kFloat8E5M2), DType::kFloat32);
  for (DType dtype : kAllDTypes) {
    if (IsFloating(dtype) && SizeOf(dtype) < 4) continue;
    EXPECT_EQ(AccumulatorOf(dtype), dtype);
  }
}

TEST(DTypeTest, SizesAreThoseOfTheWire) {
  EXPECT_EQ(SizeOf(DType::kBFloat16), 2u);
  EXPECT_EQ(SizeOf(DType::kFloat16), 2u);
  EXPECT_EQ(SizeOf(DType::kFloat32), 4u);
  EXPECT_EQ(SizeOf(DType::kInt32), 4u);
  EXPECT_EQ(SizeOf(DType::kFloat64), 8u);
  EXPECT_EQ(SizeOf(DType::kInt64), 8u);
  EXPECT_EQ(SizeOf(DType::kUint32), 4u);
  EXPECT_EQ(SizeOf(DType::kUint64), 8u);
  for (DType dtype : {DType::kInt8, DType::kUint8, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    EXPECT_EQ(SizeOf(dtype), 1u) << dtype;
  }
}

TEST(DTypeTest, FloatsAreFloating) {
  for (DType dtype : kAllDTypes) {
    EXPECT_EQ(IsFloating(dtype), NameOf(dtype).find("float") != std::string_view::npos) << dtype;
  }
}

}  // namespace
}  // namespace rz
