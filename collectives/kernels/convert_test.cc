#include "collectives/kernels/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "collectives/kernels/reduce_kernel.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

// A 16-bit format by its parameters, valued in double: the independent reading of both standards.
struct Format {
  DType dtype;
  int mantissa_bits;
  int exponent_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  bool IsNan(uint16_t code) const { return (code & 0x7fffu) > infinity(); }

  // Also of the code of infinity, read as if the exponents went on: where rounding would overflow.
  double Magnitude(uint32_t code) const {
    const int exponent = static_cast<int>(code >> mantissa_bits);
    const int mantissa = static_cast<int>(code & ((1u << mantissa_bits) - 1));
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias() - mantissa_bits);
  }

  double Value(uint16_t code) const {
    const uint32_t magnitude = code & 0x7fffu;
    const double value = magnitude == infinity() ? HUGE_VAL : Magnitude(magnitude);
    return (code & 0x8000u) != 0 ? -value : value;
  }

  // Nearest, ties to even, by search; not for NaN.
  uint16_t Round(double value) const {
    const double magnitude = std::fabs(value);
    uint32_t low = 0, high = infinity();
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      (Magnitude(middle) <= magnitude ? low : high) = middle;
    }
    const double half_way = (Magnitude(low) + Magnitude(high)) / 2;
    const bool up = magnitude > half_way || (magnitude == half_way && (low & 1) != 0);
    return static_cast<uint16_t>((up ? high : low) | (std::signbit(value) ? 0x8000u : 0u));
  }
};

constexpr Format kBFloat16 = {DType::kBFloat16, 7, 8};
constexpr Format kFloat16 = {DType::kFloat16, 10, 5};
constexpr Format kFormats[] = {kBFloat16, kFloat16};

uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }

float ScalarToFloat(DType dtype, uint16_t code) {
  return dtype == DType::kBFloat16 ? BFloat16ToFloat(code) : Float16ToFloat(code);
}

uint16_t ScalarFromFloat(DType dtype, float value) {
  return dtype == DType::kBFloat16 ? FloatToBFloat16(value) : FloatToFloat16(value);
}

std::vector<uint16_t> AllCodes() {
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  return codes;
}

// Every code's value, every tie between neighbours, and the floats on both sides of each.
std::vector<float> FloatsNearEveryRounding(const Format& format) {
  std::vector<float> floats;
  for (uint32_t code = 0; code < format.infinity(); ++code) {
    const double here = format.Magnitude(code);
    for (double point : {here, (here + format.Magnitude(code + 1)) / 2}) {
      const float value = static_cast<float>(point);
      for (float near :
           {std::nextafterf(value, -INFINITY), value, std::nextafterf(value, INFINITY)}) {
        floats.push_back(near);
        floats.push_back(-near);
      }
    }
  }
  return floats;
}

std::vector<float> RandomBitPatterns(size_t count) {
  std::mt19937 random(7);
  std::vector<float> floats(count);
  for (float& value : floats) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
  return floats;
}

TEST(ConvertTest, EveryCodeWidensToItsValue) {
  for (const Format& format : kFormats) {
    for (uint16_t code : AllCodes()) {
      const float value = ScalarToFloat(format.dtype, code);
      if (format.IsNan(code)) {
        ASSERT_TRUE(std::isnan(value)) << format.dtype << " " << code;
        ASSERT_EQ(std::signbit(value), (code & 0x8000u) != 0) << format.dtype << " " << code;
      } else {
        ASSERT_EQ(std::bit_cast<uint64_t>(static_cast<double>(value)),
                  std::bit_cast<uint64_t>(format.Value(code)))
            << format.dtype << " " << code;
      }
    }
  }
}

TEST(ConvertTest, EveryCodeSurvivesTheWayThereAndBack) {
  for (const Format& format : kFormats) {
    const uint16_t quiet = static_cast<uint16_t>(1u << (format.mantissa_bits - 1));
    for (uint16_t code : AllCodes()) {
      const uint16_t back = ScalarFromFloat(format.dtype, ScalarToFloat(format.dtype, code));
      ASSERT_EQ(back, format.IsNan(code) ? code | quiet : code) << format.dtype;
    }
  }
}

TEST(ConvertTest, RoundingIsToNearestTiesToEven) {
  for (const Format& format : kFormats) {
    for (float value : FloatsNearEveryRounding(format)) {
      ASSERT_EQ(ScalarFromFloat(format.dtype, value), format.Round(value))
          << format.dtype << " " << value;
    }
  }
}

TEST(ConvertTest, RandomFloatsRoundAsTheOracleSays) {
  for (const Format& format : kFormats) {
    for (float value : RandomBitPatterns(200000)) {
      if (std::isnan(value)) continue;
      ASSERT_EQ(ScalarFromFloat(format.dtype, value), format.Round(value))
          << format.dtype << " " << value;
    }
  }
}

TEST(ConvertTest, LargeValuesOverflowToInfinityWhereTheTieSays) {
  EXPECT_EQ(FloatToFloat16(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToFloat16(std::nextafterf(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(FloatToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToFloat16(-65520.0f), 0xfc00);
  EXPECT_EQ(FloatToFloat16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(FloatToBFloat16(std::bit_cast<float>(0x7f7f7fffu)), 0x7f7f);
  EXPECT_EQ(FloatToFloat16(INFINITY), 0x7c00);
  EXPECT_EQ(FloatToBFloat16(-INFINITY), 0xff80);
}

TEST(ConvertTest, NanStaysNanEvenWhereItsPayloadIsCutOff) {
  const float low_payload = std::bit_cast<float>(0x7f800001u);
  EXPECT_EQ(FloatToBFloat16(low_payload), 0x7fc0);
  EXPECT_EQ(FloatToFloat16(low_payload), 0x7e00);
  EXPECT_EQ(FloatToBFloat16(std::bit_cast<float>(0xffffffffu)), 0xffff);
  EXPECT_EQ(FloatToFloat16(std::bit_cast<float>(0xffffffffu)), 0xffff);
}

// Vector kernels, all levels.

class ConvertLevelTest : public ::testing::TestWithParam<SimdLevel> {
 protected:
  // The array forms are these two kernels at the active level.
  const ReduceKernel& Kernel(DType dtype) {
    return **GetReduceKernel(dtype, ReduceOp::kSum, GetParam());
  }
};

TEST_P(ConvertLevelTest, EveryCodeWidensAsTheScalarForm) {
  const std::vector<uint16_t> codes = AllCodes();
  std::vector<float> wide(codes.size());
  for (const Format& format : kFormats) {
    Kernel(format.dtype).widen(wide.data(), codes.data(), codes.size());
    for (size_t i = 0; i < codes.size(); ++i) {
      ASSERT_EQ(BitsOf(wide[i]), BitsOf(ScalarToFloat(format.dtype, codes[i])))
          << format.dtype << " " << codes[i];
    }
  }
}

TEST_P(ConvertLevelTest, EveryRoundingIsAsTheScalarForm) {
  for (const Format& format : kFormats) {
    std::vector<float> values = FloatsNearEveryRounding(format);
    const std::vector<float> random = RandomBitPatterns(300000);
    values.insert(values.end(), random.begin(), random.end());
    std::vector<uint16_t> narrow(values.size());
    Kernel(format.dtype).finish(narrow.data(), values.data(), values.size(), 1.0);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(narrow[i], ScalarFromFloat(format.dtype, values[i]))
          << format.dtype << " bits " << BitsOf(values[i]);
    }
  }
}

TEST_P(ConvertLevelTest, NarrowingMayStandInItsOwnSource) {
  for (const Format& format : kFormats) {
    std::vector<float> values = RandomBitPatterns(1003);
    std::vector<uint16_t> expected(values.size());
    Kernel(format.dtype).finish(expected.data(), values.data(), values.size(), 1.0);
    Kernel(format.dtype).finish(values.data(), values.data(), values.size(), 1.0);
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), 2 * expected.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ConvertLevelTest, ::testing::ValuesIn(SupportedSimdLevels()),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST(ConvertArrayTest, EveryFloatingDTypeConvertsBothWays) {
  const std::vector<float> values = {0.0f, -0.0f, 1.5f, -2.25f, 65504.0f, 0.333333f, 1e-5f};
  for (DType dtype : kAllDTypes) {
    if (!IsFloating(dtype)) continue;
    // One byte off any alignment.
    std::vector<unsigned char> stored(values.size() * SizeOf(dtype) + 1);
    ConvertFromFloat(dtype, stored.data() + 1, values.data(), values.size());
    std::vector<float> back(values.size());
    ConvertToFloat(dtype, back.data(), stored.data() + 1, values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const float expected =
          SizeOf(dtype) == 2 ? ScalarToFloat(dtype, ScalarFromFloat(dtype, values[i])) : values[i];
      EXPECT_EQ(BitsOf(back[i]), BitsOf(expected)) << dtype << " " << values[i];
    }
  }
}

TEST(ConvertArrayTest, NothingIsTouchedForCountZero) {
  for (DType dtype : kAllDTypes) {
    if (!IsFloating(dtype)) continue;
    ConvertFromFloat(dtype, nullptr, nullptr, 0);
    ConvertToFloat(dtype, nullptr, nullptr, 0);
  }
}

}  // namespace
}  // namespace rz
