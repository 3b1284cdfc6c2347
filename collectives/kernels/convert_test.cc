#include "collectives/kernels/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "collectives/kernels/reduce_kernel.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

// A format by its parameters, valued in double: the independent reading of the standards.
class Format {
 public:
  // overflow: the first magnitude that is no number, the code of infinity or else of NaN.
  Format(DType dtype, int mantissa_bits, int exponent_bits, uint32_t overflow, bool infinity)
      : dtype(dtype), overflow(overflow), mantissa_bits_(mantissa_bits), infinity_(infinity) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    for (uint32_t code = 0; code <= overflow; ++code) {
      const int exponent = static_cast<int>(code >> mantissa_bits);
      const int mantissa = static_cast<int>(code & ((1u << mantissa_bits) - 1));
      magnitudes_.push_back(exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                          : std::ldexp(mantissa + (1 << mantissa_bits),
                                                       exponent - bias - mantissa_bits));
    }
  }

  const DType dtype;
  const uint32_t overflow;

  size_t codes() const { return size_t{1} << (8 * SizeOf(dtype)); }
  uint16_t sign() const { return static_cast<uint16_t>(codes() / 2); }
  // The bit that makes a NaN quiet; none where there is one NaN alone.
  uint16_t quiet() const { return infinity_ ? 1u << (mantissa_bits_ - 1) : 0; }

  bool IsNan(uint16_t code) const {
    const uint32_t magnitude = code & (sign() - 1u);
    return infinity_ ? magnitude > overflow : magnitude >= overflow;
  }

  // Also of the overflow code, read as if the exponents went on.
  double Magnitude(uint32_t code) const { return magnitudes_[code]; }

  double Value(uint16_t code) const {
    const uint32_t magnitude = code & (sign() - 1u);
    const double value = magnitude == overflow ? HUGE_VAL : Magnitude(magnitude);
    return (code & sign()) != 0 ? -value : value;
  }

  // Nearest, ties to even, by search; not for NaN.
  uint16_t Round(double value) const {
    const double magnitude = std::fabs(value);
    const auto above = std::upper_bound(magnitudes_.begin(), magnitudes_.end() - 1, magnitude);
    const uint32_t high = static_cast<uint32_t>(above - magnitudes_.begin());
    const uint32_t low = high - 1;
    const double half_way = (Magnitude(low) + Magnitude(high)) / 2;
    const bool up = magnitude > half_way || (magnitude == half_way && (low & 1) != 0);
    return static_cast<uint16_t>((up ? high : low) | (std::signbit(value) ? sign() : 0u));
  }

 private:
  int mantissa_bits_;
  bool infinity_;
  std::vector<double> magnitudes_;  // by code, overflow included
};

const Format kFormats[] = {{DType::kBFloat16, 7, 8, 0x7f80, true},
                           {DType::kFloat16, 10, 5, 0x7c00, true},
                           {DType::kFloat8E4M3, 3, 4, 0x7f, false},
                           {DType::kFloat8E5M2, 2, 5, 0x7c, true}};

uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }

float ScalarToFloat(DType dtype, uint16_t code) {
  if (dtype == DType::kBFloat16) return BFloat16ToFloat(code);
  if (dtype == DType::kFloat16) return Float16ToFloat(code);
  const uint8_t byte = static_cast<uint8_t>(code);
  return dtype == DType::kFloat8E4M3 ? Float8E4M3ToFloat(byte) : Float8E5M2ToFloat(byte);
}

uint16_t ScalarFromFloat(DType dtype, float value) {
  if (dtype == DType::kBFloat16) return FloatToBFloat16(value);
  if (dtype == DType::kFloat16) return FloatToFloat16(value);
  return dtype == DType::kFloat8E4M3 ? FloatToFloat8E4M3(value) : FloatToFloat8E5M2(value);
}

std::vector<uint16_t> AllCodes(const Format& format) {
  std::vector<uint16_t> codes(format.codes());
  std::iota(codes.begin(), codes.end(), uint16_t{0});
  return codes;
}

// Every code's value, every tie between neighbours, and the floats on both sides of each; and all
// bfloat16 codes but NaN.
std::vector<float> FloatsNearEveryRounding(const Format& format) {
  std::vector<float> floats;
  for (uint32_t code = 0; code < format.overflow; ++code) {
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
  for (uint32_t code = 0; code < 65536; ++code) {
    const float value = BFloat16ToFloat(static_cast<uint16_t>(code));
    if (!std::isnan(value)) floats.push_back(value);
  }
  return floats;
}

std::vector<float> RandomBitPatterns(size_t count) {
  std::mt19937 random(7);
  std::vector<float> floats(count);
  for (float& value : floats) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
  return floats;
}

// Random digits of every size that the format can tell apart, and a little beyond.
std::vector<float> RandomFloatsInRange(const Format& format, size_t count) {
  std::mt19937_64 random(8);
  const int lowest = std::ilogb(format.Magnitude(1)) - 3;
  const int highest = std::ilogb(format.Magnitude(format.overflow)) + 2;
  std::vector<float> floats(count);
  for (float& value : floats) {
    const uint64_t draw = random();
    const double digits = 1.0 + static_cast<double>(draw >> 40) * 0x1p-24;
    const int exponent = lowest + static_cast<int>((draw & 0xffff) % (highest - lowest));
    value = static_cast<float>(std::ldexp((draw & 0x10000) != 0 ? -digits : digits, exponent));
  }
  return floats;
}

TEST(ConvertTest, EveryCodeWidensToItsValue) {
  for (const Format& format : kFormats) {
    for (uint16_t code : AllCodes(format)) {
      const float value = ScalarToFloat(format.dtype, code);
      if (format.IsNan(code)) {
        ASSERT_TRUE(std::isnan(value)) << format.dtype << " " << code;
        ASSERT_EQ(std::signbit(value), (code & format.sign()) != 0) << format.dtype << " " << code;
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
    for (uint16_t code : AllCodes(format)) {
      const uint16_t back = ScalarFromFloat(format.dtype, ScalarToFloat(format.dtype, code));
      ASSERT_EQ(back, format.IsNan(code) ? code | format.quiet() : code) << format.dtype;
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
    std::vector<float> values = RandomFloatsInRange(format, 2000000);
    const std::vector<float> patterns = RandomBitPatterns(1000000);
    values.insert(values.end(), patterns.begin(), patterns.end());
    for (float value : values) {
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

// 464 is the tie between 448 and the 480 that e4m3 would have if it had no NaN.
TEST(ConvertTest, EightBitFloatsOverflowToNanOrInfinityWhereTheTieSays) {
  EXPECT_EQ(Float8E4M3ToFloat(0x7e), 448.0f);
  EXPECT_EQ(FloatToFloat8E4M3(464.0f), 0x7e);
  EXPECT_EQ(FloatToFloat8E4M3(std::nextafterf(464.0f, 1000.0f)), 0x7f);
  EXPECT_EQ(FloatToFloat8E4M3(-480.0f), 0xff);
  EXPECT_EQ(FloatToFloat8E4M3(INFINITY), 0x7f);
  EXPECT_EQ(FloatToFloat8E4M3(-INFINITY), 0xff);
  EXPECT_EQ(Float8E5M2ToFloat(0x7b), 57344.0f);
  EXPECT_EQ(FloatToFloat8E5M2(std::nextafterf(61440.0f, 0.0f)), 0x7b);
  EXPECT_EQ(FloatToFloat8E5M2(61440.0f), 0x7c);
  EXPECT_EQ(FloatToFloat8E5M2(-std::numeric_limits<float>::max()), 0xfc);
  EXPECT_EQ(FloatToFloat8E5M2(INFINITY), 0x7c);
}

// Through float16 1 + 1/8 + 2^-12 would become the tie 1 + 1/8 and then 1.
TEST(ConvertTest, RoundingToE5M2IsNotDoneTwice) {
  EXPECT_EQ(FloatToFloat8E5M2(1.125f), FloatToFloat8E5M2(1.0f));
  EXPECT_EQ(FloatToFloat8E5M2(1.125f + 0x1p-12f), FloatToFloat8E5M2(1.25f));
}

TEST(ConvertTest, NanStaysNanEvenWhereItsPayloadIsCutOff) {
  const float low_payload = std::bit_cast<float>(0x7f800001u);
  EXPECT_EQ(FloatToBFloat16(low_payload), 0x7fc0);
  EXPECT_EQ(FloatToFloat16(low_payload), 0x7e00);
  EXPECT_EQ(FloatToFloat8E4M3(low_payload), 0x7f);
  EXPECT_EQ(FloatToFloat8E5M2(low_payload), 0x7e);
  EXPECT_EQ(FloatToFloat8E5M2(std::bit_cast<float>(0xffffffffu)), 0xff);
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

// Codes as the bytes of an array of the format's dtype, and back.
std::vector<unsigned char> Packed(const Format& format, const std::vector<uint16_t>& codes) {
  const size_t size = SizeOf(format.dtype);
  std::vector<unsigned char> bytes(codes.size() * size);
  for (size_t i = 0; i < codes.size(); ++i) std::memcpy(&bytes[i * size], &codes[i], size);
  return bytes;
}

uint16_t CodeAt(const Format& format, const void* bytes, size_t i) {
  const size_t size = SizeOf(format.dtype);
  uint16_t code = 0;
  std::memcpy(&code, static_cast<const unsigned char*>(bytes) + i * size, size);
  return code;
}

TEST_P(ConvertLevelTest, EveryCodeWidensAsTheScalarForm) {
  for (const Format& format : kFormats) {
    const std::vector<uint16_t> codes = AllCodes(format);
    std::vector<float> wide(codes.size());
    Kernel(format.dtype).widen(wide.data(), Packed(format, codes).data(), codes.size());
    for (size_t i = 0; i < codes.size(); ++i) {
      ASSERT_EQ(BitsOf(wide[i]), BitsOf(ScalarToFloat(format.dtype, codes[i])))
          << format.dtype << " " << codes[i];
    }
  }
}

TEST_P(ConvertLevelTest, EveryRoundingIsAsTheScalarForm) {
  for (const Format& format : kFormats) {
    std::vector<float> values = FloatsNearEveryRounding(format);
    for (const auto& more : {RandomBitPatterns(300000), RandomFloatsInRange(format, 500000)}) {
      values.insert(values.end(), more.begin(), more.end());
    }
    std::vector<unsigned char> narrow(values.size() * SizeOf(format.dtype));
    Kernel(format.dtype).finish(narrow.data(), values.data(), values.size(), 1.0);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(CodeAt(format, narrow.data(), i), ScalarFromFloat(format.dtype, values[i]))
          << format.dtype << " bits " << BitsOf(values[i]);
    }
  }
}

TEST_P(ConvertLevelTest, NarrowingMayStandInItsOwnSource) {
  for (const Format& format : kFormats) {
    std::vector<float> values = RandomBitPatterns(1003);
    std::vector<unsigned char> expected(values.size() * SizeOf(format.dtype));
    Kernel(format.dtype).finish(expected.data(), values.data(), values.size(), 1.0);
    Kernel(format.dtype).finish(values.data(), values.data(), values.size(), 1.0);
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), expected.size()), 0);
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
          SizeOf(dtype) <= 2 ? ScalarToFloat(dtype, ScalarFromFloat(dtype, values[i])) : values[i];
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
