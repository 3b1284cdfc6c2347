// Every kernel of every level, dtype and operation against the reference, element by element.
#include "collectives/kernels/reduce_kernel.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "collectives/kernels/reference_kernel.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"

namespace rz {
namespace {

using rz::testing::AllSpecialPairs;
using rz::testing::Buffer;
using rz::testing::ElementCounts;
using rz::testing::Guarded;
using rz::testing::RandomElements;

using LevelDTypeOp = std::tuple<SimdLevel, DType, ReduceOp>;

class ReduceKernelTest : public ::testing::TestWithParam<LevelDTypeOp> {
 protected:
  SimdLevel level() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  ReduceOp op() const { return std::get<2>(GetParam()); }
  DType accumulator() const { return AccumulatorOf(dtype()); }
  const ReduceKernel& kernel() const { return **GetReduceKernel(dtype(), op(), level()); }
};

TEST_P(ReduceKernelTest, AccumulateIsTheOperationInTheAccumulator) {
  for (size_t count : ElementCounts()) {
    const Buffer a = RandomElements(accumulator(), count, 1 + count);
    const Buffer b = RandomElements(dtype(), count, 1000 + count);
    const Buffer expected = rz::testing::ExpectedAccumulate(dtype(), op(), a, b);
    Guarded from_a(a, 3), from_b(b, 1), to(a.size(), 5);
    kernel().accumulate(to.data(), from_a.data(), from_b.data(), count);
    ASSERT_EQ(to.content(), expected) << count;
    ASSERT_TRUE(to.intact()) << count;
    kernel().accumulate(from_a.data(), from_a.data(), from_b.data(), count);
    ASSERT_EQ(from_a.content(), expected) << count << " in place of a";
    ASSERT_TRUE(from_a.intact()) << count;
  }
}

TEST_P(ReduceKernelTest, CombineRoundsOnceToTheWire) {
  for (size_t count : ElementCounts()) {
    const Buffer a = RandomElements(dtype(), count, 1 + count);
    const Buffer b = RandomElements(dtype(), count, 1000 + count);
    const Buffer expected = rz::testing::ExpectedCombine(dtype(), op(), a, b);
    Guarded from_a(a, 1), from_b(b, 0), to(a.size(), 7);
    kernel().combine(to.data(), from_a.data(), from_b.data(), count);
    ASSERT_EQ(to.content(), expected) << count;
    ASSERT_TRUE(to.intact()) << count;
    Guarded in_b(b, 64);
    kernel().combine(in_b.data(), from_a.data(), in_b.data(), count);
    ASSERT_EQ(in_b.content(), expected) << count << " in place of b";
    ASSERT_TRUE(in_b.intact()) << count;
    kernel().combine(from_a.data(), from_a.data(), from_b.data(), count);
    ASSERT_EQ(from_a.content(), expected) << count << " in place of a";
  }
}

TEST_P(ReduceKernelTest, EveryPairOfSpecialValues) {
  const auto [a, b] = AllSpecialPairs(dtype());
  const size_t count = a.size() / SizeOf(dtype());
  const Buffer expected = rz::testing::ExpectedCombine(dtype(), op(), a, b);
  Buffer result(a.size()), swapped(a.size());
  kernel().combine(result.data(), a.data(), b.data(), count);
  EXPECT_EQ(result, expected);
  kernel().combine(swapped.data(), b.data(), a.data(), count);
  EXPECT_EQ(swapped, expected) << "the operation does not commute";
}

TEST_P(ReduceKernelTest, WidenIsExact) {
  for (size_t count : ElementCounts()) {
    const Buffer source = RandomElements(dtype(), count, 17 + count);
    Guarded from(source, 1), to(count * SizeOf(accumulator()), 3);
    kernel().widen(to.data(), from.data(), count);
    ASSERT_TRUE(to.intact()) << count;
    ASSERT_EQ(to.content(), rz::testing::ExpectedWiden(dtype(), source)) << count;
  }
}

TEST_P(ReduceKernelTest, FinishDividesMeansAndRoundsOnce) {
  const double divisor = op() == ReduceOp::kAvg ? 3.0 : 1.0;
  for (size_t count : ElementCounts()) {
    const Buffer source = RandomElements(accumulator(), count, 29 + count);
    const Buffer expected = rz::testing::ExpectedFinish(dtype(), op(), source, divisor);
    Guarded from(source, 3), to(expected.size(), 1);
    kernel().finish(to.data(), from.data(), count, divisor);
    ASSERT_EQ(to.content(), expected) << count;
    ASSERT_TRUE(to.intact()) << count;
    kernel().finish(from.data(), from.data(), count, divisor);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), from.data())) << count << " in place";
  }
}

TEST_P(ReduceKernelTest, SameBitsAsPortable) {
  const ReduceKernel& portable = **GetReduceKernel(dtype(), op(), SimdLevel::kPortable);
  const size_t count = 30011;
  const Buffer a = RandomElements(dtype(), count, 5);
  const Buffer b = RandomElements(dtype(), count, 6);
  const Buffer partial = RandomElements(accumulator(), count, 7);
  const auto run = [&](const ReduceKernel& kernel) {
    Buffer combined(a.size()), sum(partial.size()), wide(partial.size()), finished(a.size());
    kernel.combine(combined.data(), a.data(), b.data(), count);
    kernel.accumulate(sum.data(), partial.data(), b.data(), count);
    kernel.widen(wide.data(), a.data(), count);
    kernel.finish(finished.data(), sum.data(), count, op() == ReduceOp::kAvg ? 7.0 : 1.0);
    return std::vector<Buffer>{combined, sum, wide, finished};
  };
  EXPECT_EQ(run(kernel()), run(portable));
}

TEST_P(ReduceKernelTest, TheMeanOfTwoIsWhatAccumulatingAndFinishingGive) {
  if (op() != ReduceOp::kAvg) {
    EXPECT_EQ(kernel().combine_mean, nullptr);
    return;
  }
  for (const size_t count : {size_t{0}, size_t{1}, size_t{63}, size_t{30011}}) {
    const Buffer a = RandomElements(dtype(), count, 8);
    const Buffer b = RandomElements(dtype(), count, 9);
    for (const double divisor : {1.0, 2.0, 3.0, 4.0, 7.0, 64.0, 1000.0}) {
      Buffer sum(count * SizeOf(accumulator())), expected(a.size()), mean(a.size());
      kernel().widen(sum.data(), a.data(), count);
      kernel().accumulate(sum.data(), sum.data(), b.data(), count);
      kernel().finish(expected.data(), sum.data(), count, divisor);
      kernel().combine_mean(mean.data(), a.data(), b.data(), count, divisor);
      EXPECT_EQ(mean, expected) << count << " / " << divisor;
    }
  }
}

std::vector<LevelDTypeOp> AllKernels() {
  std::vector<LevelDTypeOp> all;
  for (SimdLevel level : SupportedSimdLevels()) {
    for (DType dtype : kAllDTypes) {
      for (ReduceOp op : kAllReduceOps) {
        if (IsFloating(dtype) || op != ReduceOp::kAvg) all.push_back({level, dtype, op});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ReduceKernelTest, ::testing::ValuesIn(AllKernels()),
                         [](const auto& info) {
                           return std::apply(rz::testing::KernelName, info.param);
                         });

}  // namespace
}  // namespace rz
