#include "collectives/local_step.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "collectives/kernels/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// More than one piece of the stack, and a remainder.
constexpr size_t kCount = 2500;

Arithmetic ArithmeticOf(DType dtype, ReduceOp op, double divisor = 1) {
  auto kernel = GetReduceKernel(dtype, op);
  EXPECT_OK(kernel);
  return {dtype, *kernel, divisor, {}};
}

template <typename T>
Operand Wire(std::vector<T>& data) {
  return {reinterpret_cast<std::byte*>(data.data()), Format::kWire};
}
Operand Wide(std::vector<float>& data) {
  return {reinterpret_cast<std::byte*>(data.data()), Format::kAccumulator};
}

// bfloat16 has 8 bits: 1 + 2^-8 is not one of them, and two of them make 2 + 2^-7, which is none
// either; 3 + 3 * 2^-8 rounds up.
constexpr float kOneAndABit = 1.0f + 1.0f / 256;
const uint16_t kOne = FloatToBFloat16(1.0f);

TEST(LocalStepTest, CopyMovesWireElements) {
  std::vector<int64_t> from(kCount, 7);
  std::vector<int64_t> to(kCount, 0);
  Arithmetic arithmetic;
  arithmetic.dtype = DType::kInt64;
  RunLocalStep(LocalKind::kCopy, Wire(to), Wire(from), {}, kCount, arithmetic);
  EXPECT_EQ(to, from);
}

TEST(LocalStepTest, WidenIsExact) {
  std::vector<uint16_t> from(kCount, FloatToBFloat16(1.5f));
  std::vector<float> to(kCount);
  RunLocalStep(LocalKind::kWiden, Wide(to), Wire(from), {}, kCount,
               ArithmeticOf(DType::kBFloat16, ReduceOp::kSum));
  EXPECT_THAT(to, Each(1.5f));
}

TEST(LocalStepTest, ReduceIntoTheAccumulatorDoesNotRound) {
  std::vector<float> sum(kCount, kOneAndABit);
  std::vector<uint16_t> input(kCount, kOne);
  const Arithmetic arithmetic = ArithmeticOf(DType::kBFloat16, ReduceOp::kSum);
  RunLocalStep(LocalKind::kReduce, Wide(sum), Wide(sum), Wire(input), kCount, arithmetic);
  EXPECT_THAT(sum, Each(2.0f + 1.0f / 256));
  std::vector<uint16_t> other(kCount, FloatToBFloat16(1.0f / 256));
  RunLocalStep(LocalKind::kReduce, Wide(sum), Wire(input), Wire(other), kCount, arithmetic);
  EXPECT_THAT(sum, Each(kOneAndABit));
}

TEST(LocalStepTest, ReduceIntoTheWireRoundsOnce) {
  std::vector<uint16_t> sum(kCount, kOne);
  std::vector<uint16_t> input(kCount, FloatToBFloat16(1.0f / 256));
  RunLocalStep(LocalKind::kReduce, Wire(sum), Wire(sum), Wire(input), kCount,
               ArithmeticOf(DType::kBFloat16, ReduceOp::kSum));
  EXPECT_THAT(sum, Each(kOne));  // a tie, to even
}

TEST(LocalStepTest, FinishFromTheAccumulatorDividesAndRoundsOnce) {
  std::vector<float> partial(kCount, 2.0f * kOneAndABit);
  std::vector<uint16_t> output(kCount, FloatToBFloat16(3.0f / 256));
  // In place of b: (2 + 2/256 + 3/256) / 2 = 1 + 2.5/256, nearest is 1 + 2/256.
  RunLocalStep(LocalKind::kReduceFinish, Wire(output), Wide(partial), Wire(output), kCount,
               ArithmeticOf(DType::kBFloat16, ReduceOp::kAvg, 2));
  EXPECT_THAT(output, Each(FloatToBFloat16(1.0f + 2.0f / 256)));
  EXPECT_THAT(partial, Each(2.0f * kOneAndABit));
}

TEST(LocalStepTest, AverageOfWirePartialsIsNotRoundedBeforeTheDivision) {
  // 256 + 1 needs nine bits; its half, 128.5, does not.
  std::vector<uint16_t> partial(kCount, FloatToBFloat16(256.0f));
  std::vector<uint16_t> input(kCount, kOne);
  std::vector<uint16_t> output(kCount);
  RunLocalStep(LocalKind::kReduceFinish, Wire(output), Wire(partial), Wire(input), kCount,
               ArithmeticOf(DType::kBFloat16, ReduceOp::kAvg, 2));
  EXPECT_THAT(output, Each(FloatToBFloat16(128.5f)));
}

TEST(LocalStepTest, FinishOfADtypeThatIsItsOwnAccumulator) {
  std::vector<double> a = {1, 5};
  std::vector<double> b = {2, 4};
  std::vector<double> output(2);
  RunLocalStep(LocalKind::kReduceFinish, Wire(output), Wire(a), Wire(b), 2,
               ArithmeticOf(DType::kFloat64, ReduceOp::kAvg, 2));
  EXPECT_THAT(output, ElementsAre(1.5, 4.5));
  RunLocalStep(LocalKind::kReduceFinish, Wire(output), Wire(a), Wire(b), 2,
               ArithmeticOf(DType::kFloat64, ReduceOp::kMax));
  EXPECT_THAT(output, ElementsAre(2, 5));
}

Arithmetic PremulOf(DType dtype, PremulFactor factor) {
  Arithmetic arithmetic = ArithmeticOf(dtype, ReduceOp::kPremulSum);
  arithmetic.premul = factor;
  return arithmetic;
}

template <typename T>
Operand RankInput(std::vector<T>& data) {
  return {reinterpret_cast<std::byte*>(data.data()), Format::kWire, /*is_input=*/true};
}

constexpr PremulFactor kThird = {1.0 / 3.0, 0};

TEST(LocalStepTest, PremulSumMultipliesInputsWhereTheyEnterTheAccumulator) {
  std::vector<uint16_t> input(kCount, FloatToBFloat16(256.0f));
  std::vector<float> sum(kCount);
  const Arithmetic arithmetic = PremulOf(DType::kBFloat16, kThird);
  RunLocalStep(LocalKind::kWiden, Wide(sum), RankInput(input), {}, kCount, arithmetic);
  EXPECT_THAT(sum, Each(256.0f / 3.0f));
  RunLocalStep(LocalKind::kReduce, Wide(sum), Wide(sum), RankInput(input), kCount, arithmetic);
  EXPECT_THAT(sum, Each(256.0f / 3.0f + 256.0f / 3.0f));
  RunLocalStep(LocalKind::kReduce, Wide(sum), RankInput(input), RankInput(input), kCount,
               arithmetic);
  EXPECT_THAT(sum, Each(256.0f / 3.0f + 256.0f / 3.0f));
  std::vector<uint16_t> output = input;
  RunLocalStep(LocalKind::kReduceFinish, Wire(output), Wide(sum), RankInput(output), kCount,
               arithmetic);
  EXPECT_THAT(output, Each(FloatToBFloat16(256.0f)));
}

TEST(LocalStepTest, PremulSumLeavesPartialResultsOfTheWireAsTheyAre) {
  std::vector<uint16_t> input(kCount, FloatToBFloat16(2.0f));
  std::vector<uint16_t> partial(kCount, FloatToBFloat16(1.0f));
  std::vector<uint16_t> output(kCount);
  const Arithmetic arithmetic = PremulOf(DType::kBFloat16, {3.0, 0});
  const auto expect = [&](Operand a, Operand b, float expected) {
    for (LocalKind kind : {LocalKind::kReduce, LocalKind::kReduceFinish}) {
      RunLocalStep(kind, Wire(output), a, b, kCount, arithmetic);
      EXPECT_THAT(output, Each(FloatToBFloat16(expected)));
    }
  };
  expect(Wire(partial), RankInput(input), 1.0f + 3.0f * 2.0f);
  expect(RankInput(input), Wire(partial), 3.0f * 2.0f + 1.0f);
  expect(RankInput(input), RankInput(partial), 3.0f * 2.0f + 3.0f * 1.0f);
  expect(Wire(input), Wire(partial), 2.0f + 1.0f);
}

TEST(LocalStepTest, PremulSumOfIntegersAndInPlace) {
  std::vector<uint64_t> sum(kCount, 5);
  std::vector<uint64_t> input(kCount, 7);
  const Arithmetic arithmetic = PremulOf(DType::kUint64, {1.0, int64_t{1} << 60});
  RunLocalStep(LocalKind::kReduce, Wire(input), Wire(sum), RankInput(input), kCount, arithmetic);
  EXPECT_THAT(input, Each(5 + (uint64_t{7} << 60)));
  RunLocalStep(LocalKind::kReduce, Wire(sum), RankInput(sum), Wire(sum), kCount, arithmetic);
  EXPECT_THAT(sum, Each(5 + (uint64_t{5} << 60)));
}

TEST(LocalStepTest, PremulSumOfOneRankIsItsProduct) {
  std::vector<uint16_t> data(kCount, FloatToBFloat16(1.0f));
  RunLocalStep(LocalKind::kFinish, Wire(data), RankInput(data), {}, kCount,
               PremulOf(DType::kBFloat16, kThird));
  EXPECT_THAT(data, Each(FloatToBFloat16(1.0f / 3.0f)));
}

TEST(LocalStepTest, OtherOpsDoNotMultiply) {
  std::vector<float> a(kCount, 1.0f);
  std::vector<float> b(kCount, 2.0f);
  Arithmetic arithmetic = ArithmeticOf(DType::kFloat32, ReduceOp::kSum);
  arithmetic.premul = {5.0, 5};
  RunLocalStep(LocalKind::kReduceFinish, Wire(a), RankInput(a), RankInput(b), kCount, arithmetic);
  EXPECT_THAT(a, Each(3.0f));
  RunLocalStep(LocalKind::kFinish, Wire(a), RankInput(b), {}, kCount, arithmetic);
  EXPECT_THAT(a, Each(2.0f));
}

}  // namespace
}  // namespace rz
