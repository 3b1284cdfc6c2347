#include "optimizer/kernels/gradient_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/kernels/convert.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"

namespace rz {
namespace {

double ElementAt(DType dtype, const unsigned char* data, size_t i) {
  if (dtype == DType::kFloat64) {
    double value;
    std::memcpy(&value, data + 8 * i, 8);
    return value;
  }
  float value;
  ConvertToFloat(dtype, &value, data + SizeOf(dtype) * i, 1);
  return value;
}

// The order that the header promises, in plain C++.
double OrderedSum(DType dtype, const unsigned char* data, size_t count) {
  double sums[16] = {};
  for (size_t i = 0; i < count; ++i) {
    const double x = ElementAt(dtype, data, i);
    sums[i % 16] += x * x;
  }
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

std::vector<unsigned char> NormalElements(DType dtype, size_t count, size_t offset) {
  std::mt19937 random(static_cast<uint32_t>(count));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  std::vector<unsigned char> data(count * SizeOf(dtype) + offset);
  ConvertFromFloat(dtype, data.data() + offset, values.data(), count);
  return data;
}

class GradientStatsTest : public ::testing::TestWithParam<std::tuple<SimdLevel, DType>> {
 protected:
  SimdLevel level() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }

  double Sum(const void* data, size_t count) { return SumOfSquares(dtype(), data, count, level()); }
  int64_t NonFinite(const void* data, size_t count) {
    return CountNonFinite(dtype(), data, count, level());
  }
  void Put(std::vector<unsigned char>& data, size_t i, float value) {
    ConvertFromFloat(dtype(), data.data() + i * SizeOf(dtype()), &value, 1);
  }
};

TEST_P(GradientStatsTest, SumHasTheBitsOfTheStatedOrder) {
  std::vector<size_t> counts = {1000, 99991};
  for (size_t count = 0; count <= 130; ++count) counts.push_back(count);
  for (size_t count : counts) {
    for (size_t offset : {0, 1}) {
      const std::vector<unsigned char> data = NormalElements(dtype(), count, offset);
      ASSERT_EQ(std::bit_cast<uint64_t>(Sum(data.data() + offset, count)),
                std::bit_cast<uint64_t>(OrderedSum(dtype(), data.data() + offset, count)))
          << count;
    }
  }
}

TEST_P(GradientStatsTest, LargestElementsDoNotOverflowUnlessTheyAreDouble) {
  std::vector<unsigned char> data(100 * SizeOf(dtype()));
  const float largest = dtype() == DType::kFloat16 ? 65504.0f : 0x1.fep127f;
  for (size_t i = 0; i < 100; ++i) Put(data, i, largest);
  EXPECT_DOUBLE_EQ(Sum(data.data(), 100), 100.0 * largest * static_cast<double>(largest));
  EXPECT_EQ(NonFinite(data.data(), 100), 0);
}

TEST_P(GradientStatsTest, EveryNonFiniteElementIsCountedWhereverItStands) {
  for (size_t count = 1; count <= 70; ++count) {
    for (size_t at = 0; at < count; ++at) {
      std::vector<unsigned char> data = NormalElements(dtype(), count, 0);
      ASSERT_EQ(NonFinite(data.data(), count), 0);
      Put(data, at, std::numeric_limits<float>::quiet_NaN());
      ASSERT_EQ(NonFinite(data.data(), count), 1) << at << " of " << count;
      ASSERT_TRUE(std::isnan(Sum(data.data(), count))) << at << " of " << count;
      Put(data, at, -std::numeric_limits<float>::infinity());
      ASSERT_EQ(NonFinite(data.data(), count), 1) << at << " of " << count;
      ASSERT_EQ(Sum(data.data(), count), HUGE_VAL) << at << " of " << count;
    }
  }
}

TEST_P(GradientStatsTest, AllElementsMayBeNonFinite) {
  const size_t count = 100003;
  std::vector<unsigned char> data(count * SizeOf(dtype()), 0xff);
  EXPECT_EQ(NonFinite(data.data(), count), static_cast<int64_t>(count));
  EXPECT_EQ(std::bit_cast<uint64_t>(Sum(data.data(), count)), 0x7ff8000000000000u);
}

std::vector<std::tuple<SimdLevel, DType>> AllKernels() {
  std::vector<std::tuple<SimdLevel, DType>> all;
  for (SimdLevel level : SupportedSimdLevels()) {
    for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
      all.push_back({level, dtype});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, GradientStatsTest, ::testing::ValuesIn(AllKernels()),
                         [](const auto& info) {
                           return std::string(NameOf(std::get<0>(info.param))) + "_" +
                                  std::string(NameOf(std::get<1>(info.param)));
                         });

TEST(SquaresSumTest, PiecesOfSixteensGiveTheBitsOfTheWhole) {
  const std::vector<unsigned char> data = NormalElements(DType::kBFloat16, 333, 0);
  for (const size_t piece : {size_t{16}, size_t{48}, size_t{320}}) {
    SquaresSum sum;
    for (size_t at = 0; at < 333; at += piece) {
      sum.Add(DType::kBFloat16, data.data() + 2 * at, std::min(piece, 333 - at));
    }
    EXPECT_EQ(sum.Total(), OrderedSum(DType::kBFloat16, data.data(), 333)) << piece;
  }
}

TEST(GradientStatsActiveTest, TheActiveLevelIsTaken) {
  const std::vector<unsigned char> data = NormalElements(DType::kBFloat16, 333, 0);
  EXPECT_EQ(SumOfSquares(DType::kBFloat16, data.data(), 333),
            OrderedSum(DType::kBFloat16, data.data(), 333));
  EXPECT_EQ(CountNonFinite(DType::kBFloat16, data.data(), 333), 0);
}

}  // namespace
}  // namespace rz
