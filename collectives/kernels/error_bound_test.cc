// The error bounds that reduce_kernel.h states, for sums of 64 ranks, against the exact sum.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/kernels/convert.h"
#include "collectives/kernels/reduce_kernel.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"

namespace rz {
namespace {

constexpr int kRanks = 64;
constexpr size_t kCount = 4099;

// float16 and bfloat16 alike in memory; the 8-bit floats overflow with sums of 64.
struct Format {
  DType dtype;
  int digits;  // of the significand: u is 2^-digits
};
constexpr Format kFormats[] = {{DType::kBFloat16, 8}, {DType::kFloat16, 11}};

enum class Inputs { kBothSigns, kPositive, kCancelling, kStagnating };

const char* NameOf(Inputs inputs) {
  switch (inputs) {
    case Inputs::kBothSigns:
      return "both_signs";
    case Inputs::kPositive:
      return "positive";
    case Inputs::kCancelling:
      return "cancelling";
    case Inputs::kStagnating:
      return "stagnating";
  }
  return "";
}

// One rank's inputs as floats that the format holds. Their exponents lie so close together that
// double adds 64 of them exactly.
std::vector<float> Draw(Inputs inputs, const Format& format, int rank, std::mt19937_64& random) {
  std::vector<float> values(kCount);
  for (float& value : values) {
    const uint64_t bits = random();
    const float magnitude =
        std::ldexp(1.0f + static_cast<float>(bits >> 44) * 0x1p-20f, -static_cast<int>(bits % 12));
    const bool negative = (bits & 0x1000) != 0;
    if (inputs == Inputs::kStagnating) {
      // Half a last place of the first: lost at every hop that rounds.
      value = rank == 0 ? 1.0f : std::ldexp(1.0f, -format.digits);
    } else if (inputs == Inputs::kCancelling) {
      value = rank % 2 == 0 ? 64.0f * magnitude : -64.0f * magnitude;
    } else {
      value = negative && inputs == Inputs::kBothSigns ? -magnitude : magnitude;
    }
  }
  return values;
}

class ErrorBoundTest : public ::testing::TestWithParam<std::tuple<SimdLevel, Format, Inputs>> {
 protected:
  ErrorBoundTest() : exact_(kCount), magnitudes_(kCount) {
    std::mt19937_64 random(42);
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<float> values = Draw(std::get<2>(GetParam()), format(), rank, random);
      std::vector<uint16_t> wire(kCount);
      ConvertFromFloat(format().dtype, wire.data(), values.data(), kCount);
      ConvertToFloat(format().dtype, values.data(), wire.data(), kCount);
      for (size_t i = 0; i < kCount; ++i) {
        exact_[i] += values[i];
        magnitudes_[i] += std::fabs(values[i]);
      }
      inputs_.push_back(wire);
    }
  }

  const Format& format() const { return std::get<1>(GetParam()); }

  const ReduceKernel& kernel() const {
    return **GetReduceKernel(format().dtype, ReduceOp::kSum, std::get<0>(GetParam()));
  }

  std::vector<uint16_t> SumWithOneRounding() const {
    std::vector<float> partial(kCount);
    kernel().widen(partial.data(), inputs_[0].data(), kCount);
    for (int rank = 1; rank < kRanks; ++rank) {
      kernel().accumulate(partial.data(), partial.data(), inputs_[rank].data(), kCount);
    }
    std::vector<uint16_t> sum(kCount);
    kernel().finish(sum.data(), partial.data(), kCount, 1.0);
    return sum;
  }

  std::vector<uint16_t> SumRoundedAtEveryHop() const {
    std::vector<uint16_t> sum = inputs_[0];
    for (int rank = 1; rank < kRanks; ++rank) {
      kernel().combine(sum.data(), sum.data(), inputs_[rank].data(), kCount);
    }
    return sum;
  }

  double ValueOf(uint16_t code) const {
    float value;
    ConvertToFloat(format().dtype, &value, &code, 1);
    return value;
  }

  double Error(size_t i, uint16_t code) const { return std::fabs(ValueOf(code) - exact_[i]); }

  // The distance to the next number away from zero, halved.
  double HalfUlp(uint16_t code) const {
    const uint16_t next = static_cast<uint16_t>(code + 1);
    return std::fabs(ValueOf(next) - ValueOf(code)) / 2;
  }

  double OneRoundingBound(size_t i, uint16_t code) const {
    return HalfUlp(code) + (kRanks - 1) * 0x1p-24 * magnitudes_[i];
  }

  double EveryHopBound(size_t i) const {
    return (kRanks - 1) * std::ldexp(1.0, -format().digits) * magnitudes_[i];
  }

  std::vector<std::vector<uint16_t>> inputs_;
  std::vector<double> exact_;       // the sum
  std::vector<double> magnitudes_;  // the sum of absolute values
};

TEST_P(ErrorBoundTest, SumWithOneRoundingIsWithinHalfAnUlpAndTheErrorOfFloat32) {
  const std::vector<uint16_t> sum = SumWithOneRounding();
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_LE(Error(i, sum[i]), OneRoundingBound(i, sum[i])) << "element " << i;
  }
}

TEST_P(ErrorBoundTest, SumRoundedAtEveryHopIsWithinTheBoundOfFastMode) {
  const std::vector<uint16_t> sum = SumRoundedAtEveryHop();
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_LE(Error(i, sum[i]), EveryHopBound(i)) << "element " << i;
  }
}

// The first bound tells the two apart: a sum that rounds at every hop breaks it.
TEST_P(ErrorBoundTest, RoundingAtEveryHopBreaksTheBoundOfOneRounding) {
  const std::vector<uint16_t> sum = SumRoundedAtEveryHop();
  size_t broken = 0;
  for (size_t i = 0; i < kCount; ++i) {
    if (Error(i, sum[i]) > OneRoundingBound(i, sum[i])) ++broken;
  }
  EXPECT_GT(broken, kCount / 10);
}

std::string TestName(const ::testing::TestParamInfo<std::tuple<SimdLevel, Format, Inputs>>& info) {
  const auto& [level, format, inputs] = info.param;
  return std::string(rz::NameOf(level)) + "_" + std::string(rz::NameOf(format.dtype)) + "_" +
         NameOf(inputs);
}

INSTANTIATE_TEST_SUITE_P(All, ErrorBoundTest,
                         ::testing::Combine(::testing::ValuesIn(SupportedSimdLevels()),
                                            ::testing::ValuesIn(kFormats),
                                            ::testing::Values(Inputs::kBothSigns, Inputs::kPositive,
                                                              Inputs::kCancelling,
                                                              Inputs::kStagnating)),
                         TestName);

}  // namespace
}  // namespace rz
