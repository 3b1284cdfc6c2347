// What the kernels promise beyond single elements, and how they are found.
#include <cstdint>
#include <limits>
#include <string>

#include "collectives/kernels/convert.h"
#include "collectives/kernels/reduce_kernel.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ReduceKernelLevelTest : public ::testing::TestWithParam<SimdLevel> {};

// 1 + 2^-9 + 2^-9 is 1 if every hop rounds to bfloat16 (8 bits), and 1 + 2^-8, a tie, rounded to
// even after one rounding; a third addend makes the difference visible.
TEST_P(ReduceKernelLevelTest, SixteenBitPartialSumsAreKeptInFloat32) {
  const ReduceKernel& kernel = **GetReduceKernel(DType::kBFloat16, ReduceOp::kSum, GetParam());
  const uint16_t one = FloatToBFloat16(1.0f), small = FloatToBFloat16(0x1p-9f);
  float partial;
  kernel.widen(&partial, &one, 1);
  for (int hop = 0; hop < 3; ++hop) kernel.accumulate(&partial, &partial, &small, 1);
  uint16_t once;
  kernel.finish(&once, &partial, 1, 1.0);
  EXPECT_EQ(BFloat16ToFloat(once), 1.0f + 0x1p-7f);
  uint16_t each_hop = one;
  for (int hop = 0; hop < 3; ++hop) kernel.combine(&each_hop, &each_hop, &small, 1);
  EXPECT_EQ(BFloat16ToFloat(each_hop), 1.0f);
}

// 60000 + 60000 overflows float16; their mean does not.
TEST_P(ReduceKernelLevelTest, MeanOfFloat16IsDividedBeforeItIsRounded) {
  const ReduceKernel& kernel = **GetReduceKernel(DType::kFloat16, ReduceOp::kAvg, GetParam());
  const uint16_t large = FloatToFloat16(60000.0f);
  float partial;
  kernel.widen(&partial, &large, 1);
  kernel.accumulate(&partial, &partial, &large, 1);
  uint16_t mean;
  kernel.finish(&mean, &partial, 1, 2.0);
  EXPECT_EQ(mean, large);
}

template <typename T>
T CombineOne(DType dtype, ReduceOp op, SimdLevel level, T a, T b) {
  T result;
  (*GetReduceKernel(dtype, op, level))->combine(&result, &a, &b, 1);
  return result;
}

TEST_P(ReduceKernelLevelTest, IntegerSumsAndProductsWrap) {
  constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(CombineOne<int32_t>(DType::kInt32, ReduceOp::kSum, GetParam(), kLargest, 1),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(CombineOne<int8_t>(DType::kInt8, ReduceOp::kSum, GetParam(), 100, 100), -56);
  EXPECT_EQ(CombineOne<uint8_t>(DType::kUint8, ReduceOp::kSum, GetParam(), 200, 100), 44);
  EXPECT_EQ(CombineOne<uint8_t>(DType::kUint8, ReduceOp::kProd, GetParam(), 16, 17), 16);
  EXPECT_EQ(CombineOne<uint64_t>(DType::kUint64, ReduceOp::kProd, GetParam(), 1ull << 63, 3),
            1ull << 63);
}

TEST_P(ReduceKernelLevelTest, UnsignedIntegersAreComparedAsSuch) {
  EXPECT_EQ(CombineOne<uint8_t>(DType::kUint8, ReduceOp::kMax, GetParam(), 0xff, 1), 0xff);
  EXPECT_EQ(CombineOne<uint32_t>(DType::kUint32, ReduceOp::kMin, GetParam(), ~0u, 1), 1u);
  EXPECT_EQ(CombineOne<uint64_t>(DType::kUint64, ReduceOp::kMax, GetParam(), ~0ull, 1), ~0ull);
  EXPECT_EQ(CombineOne<int8_t>(DType::kInt8, ReduceOp::kMax, GetParam(), -1, 1), 1);
}

// 448 is the largest e4m3, 57344 the largest e5m2; both sums lie beyond half a last place more.
TEST_P(ReduceKernelLevelTest, EightBitFloatsOverflowToNanOrInfinity) {
  const uint8_t e4m3 = FloatToFloat8E4M3(448.0f), e4m3_more = FloatToFloat8E4M3(32.0f);
  const uint8_t e5m2 = FloatToFloat8E5M2(57344.0f), e5m2_more = FloatToFloat8E5M2(4096.0f);
  EXPECT_EQ(CombineOne(DType::kFloat8E4M3, ReduceOp::kSum, GetParam(), e4m3, e4m3_more), 0x7f);
  EXPECT_EQ(CombineOne(DType::kFloat8E5M2, ReduceOp::kSum, GetParam(), e5m2, e5m2_more), 0x7c);
  const uint8_t tie = FloatToFloat8E4M3(16.0f);
  EXPECT_EQ(CombineOne(DType::kFloat8E4M3, ReduceOp::kSum, GetParam(), e4m3, tie), e4m3);
}

TEST_P(ReduceKernelLevelTest, NothingIsTouchedForCountZero) {
  for (DType dtype : kAllDTypes) {
    const ReduceKernel& kernel = **GetReduceKernel(dtype, ReduceOp::kSum, GetParam());
    kernel.widen(nullptr, nullptr, 0);
    kernel.accumulate(nullptr, nullptr, nullptr, 0);
    kernel.finish(nullptr, nullptr, 0, 1.0);
    kernel.combine(nullptr, nullptr, nullptr, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ReduceKernelLevelTest, ::testing::ValuesIn(SupportedSimdLevels()),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST(GetReduceKernelTest, MeanOfIntegersIsRefusedNamingBoth) {
  for (DType dtype : kAllDTypes) {
    if (IsFloating(dtype)) continue;
    EXPECT_THAT(GetReduceKernel(dtype, ReduceOp::kAvg),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(std::string(NameOf(dtype))), HasSubstr("avg"))));
  }
}

TEST(GetReduceKernelTest, WithoutALevelTheActiveOneIsTaken) {
  ASSERT_OK_AND_ASSIGN(const ReduceKernel* kernel,
                       GetReduceKernel(DType::kFloat32, ReduceOp::kSum));
  ASSERT_OK_AND_ASSIGN(const ReduceKernel* active,
                       GetReduceKernel(DType::kFloat32, ReduceOp::kSum, ActiveSimdLevel()));
  EXPECT_EQ(kernel, active);
}

}  // namespace
}  // namespace rz
