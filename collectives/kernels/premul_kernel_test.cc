// The kernels of premul_sum: where the factor enters, and how often is rounded.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "collectives/kernels/convert.h"
#include "collectives/kernels/reduce_kernel.h"
#include "collectives/kernels/reference_kernel.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"

namespace rz {
namespace {

using rz::testing::Buffer;
using rz::testing::ElementCounts;
using rz::testing::Guarded;
using rz::testing::RandomElements;

const PremulFactor kFactors[] = {
    {},
    {-0.375, -3},
    {1.0 / 3.0, std::numeric_limits<int64_t>::max()},
    {1e30, int64_t{1} << 40},
    {0.0, 0},
    {-HUGE_VAL, -1},
    {std::numeric_limits<double>::quiet_NaN(), 255},
};

class PremulKernelTest : public ::testing::TestWithParam<std::tuple<SimdLevel, DType>> {
 protected:
  DType dtype() const { return std::get<1>(GetParam()); }
  DType accumulator() const { return AccumulatorOf(dtype()); }
  const ReduceKernel& kernel() const {
    return **GetReduceKernel(dtype(), ReduceOp::kPremulSum, std::get<0>(GetParam()));
  }
};

TEST_P(PremulKernelTest, WidenScaledMultipliesInTheAccumulator) {
  for (const PremulFactor& factor : kFactors) {
    for (size_t count : ElementCounts()) {
      const Buffer source = RandomElements(dtype(), count, 3 + count);
      Guarded from(source, 1), to(count * SizeOf(accumulator()), 3);
      kernel().widen_scaled(to.data(), from.data(), count, factor);
      ASSERT_EQ(to.content(), rz::testing::ExpectedWidenScaled(dtype(), source, factor))
          << count << " factor " << factor.floating << " or " << factor.integer;
      ASSERT_TRUE(to.intact()) << count;
    }
  }
}

TEST_P(PremulKernelTest, AccumulateScaledRoundsProductAndSum) {
  for (const PremulFactor& factor : kFactors) {
    for (size_t count : ElementCounts()) {
      const Buffer a = RandomElements(accumulator(), count, 1 + count);
      const Buffer b = RandomElements(dtype(), count, 1000 + count);
      const Buffer expected = rz::testing::ExpectedAccumulateScaled(dtype(), a, b, factor);
      Guarded from_a(a, 3), from_b(b, 1), to(a.size(), 5);
      kernel().accumulate_scaled(to.data(), from_a.data(), from_b.data(), count, factor);
      ASSERT_EQ(to.content(), expected)
          << count << " factor " << factor.floating << " or " << factor.integer;
      ASSERT_TRUE(to.intact()) << count;
      kernel().accumulate_scaled(from_a.data(), from_a.data(), from_b.data(), count, factor);
      ASSERT_EQ(from_a.content(), expected) << count << " in place of a";
    }
  }
}

TEST_P(PremulKernelTest, WithFactorOneItIsTheSum) {
  const size_t count = 1001;
  const ReduceKernel& sum = **GetReduceKernel(dtype(), ReduceOp::kSum);
  const Buffer a = RandomElements(accumulator(), count, 1);
  const Buffer b = RandomElements(dtype(), count, 2);
  Buffer scaled(a.size()), plain(a.size());
  kernel().accumulate_scaled(scaled.data(), a.data(), b.data(), count, {});
  sum.accumulate(plain.data(), a.data(), b.data(), count);
  EXPECT_EQ(scaled, plain);
}

std::vector<std::tuple<SimdLevel, DType>> AllLevelsAndDTypes() {
  std::vector<std::tuple<SimdLevel, DType>> all;
  for (SimdLevel level : SupportedSimdLevels()) {
    for (DType dtype : kAllDTypes) all.push_back({level, dtype});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, PremulKernelTest, ::testing::ValuesIn(AllLevelsAndDTypes()),
                         [](const auto& info) {
                           return rz::testing::KernelName(std::get<0>(info.param),
                                                          std::get<1>(info.param),
                                                          ReduceOp::kPremulSum);
                         });

class PremulKernelLevelTest : public ::testing::TestWithParam<SimdLevel> {};

// Rounding a third of 1 to bfloat16 before the sum would lose: 3 * 0.333984375 is 1.001953125.
TEST_P(PremulKernelLevelTest, ProductsAreNotRoundedToTheWire) {
  const ReduceKernel& kernel =
      **GetReduceKernel(DType::kBFloat16, ReduceOp::kPremulSum, GetParam());
  const PremulFactor third = {1.0 / 3.0, 1};
  const std::vector<uint16_t> ones(3, FloatToBFloat16(256.0f));
  float partial;
  kernel.widen_scaled(&partial, &ones[0], 1, third);
  kernel.accumulate_scaled(&partial, &partial, &ones[1], 1, third);
  kernel.accumulate_scaled(&partial, &partial, &ones[2], 1, third);
  EXPECT_EQ(partial, 256.0f);
}

// (1 + 2^-12)^2 is 1 + 2^-11 + 2^-24: the product alone rounds to 1 + 2^-11 (a tie), a fused
// multiply-add would see the last term.
TEST_P(PremulKernelLevelTest, ProductAndSumAreNotFused) {
  const ReduceKernel& kernel = **GetReduceKernel(DType::kFloat32, ReduceOp::kPremulSum, GetParam());
  const std::vector<float> values(64, 1.0f + 0x1p-12f);
  std::vector<float> partial(64, -(1.0f + 0x1p-11f));
  kernel.accumulate_scaled(partial.data(), partial.data(), values.data(), values.size(),
                           {1.0 + 0x1p-12, 1});
  EXPECT_THAT(partial, ::testing::Each(0.0f));
}

TEST_P(PremulKernelLevelTest, LargeIntegerFactorsAreExact) {
  const ReduceKernel& kernel = **GetReduceKernel(DType::kUint64, ReduceOp::kPremulSum, GetParam());
  const uint64_t factor = 0xfedcba9876543211u;
  const uint64_t three = 3;
  uint64_t product;
  kernel.widen_scaled(&product, &three, 1, {1.0, static_cast<int64_t>(factor)});
  EXPECT_EQ(product, 3 * factor);
}

INSTANTIATE_TEST_SUITE_P(Levels, PremulKernelLevelTest, ::testing::ValuesIn(SupportedSimdLevels()),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST(PremulKernelPresenceTest, OnlyPremulSumHasScaledKernels) {
  for (DType dtype : kAllDTypes) {
    for (ReduceOp op : kAllReduceOps) {
      const auto kernel = GetReduceKernel(dtype, op);
      if (!kernel.ok()) continue;
      EXPECT_EQ((*kernel)->widen_scaled != nullptr, op == ReduceOp::kPremulSum) << dtype << op;
      EXPECT_EQ((*kernel)->accumulate_scaled != nullptr, op == ReduceOp::kPremulSum) << dtype << op;
    }
  }
}

}  // namespace
}  // namespace rz
