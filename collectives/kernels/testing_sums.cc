#include "collectives/kernels/testing_sums.h"

#include <cmath>
#include <random>

#include "collectives/kernels/convert.h"

namespace rz::testing {
namespace {

// Of the significand: u is 2^-digits.
int DigitsOf(DType dtype) { return dtype == DType::kBFloat16 ? 8 : 11; }

std::vector<float> Draw(SumKind kind, int digits, int rank, size_t count, std::mt19937_64& random) {
  std::vector<float> values(count);
  for (float& value : values) {
    const uint64_t bits = random();
    const float magnitude =
        std::ldexp(1.0f + static_cast<float>(bits >> 44) * 0x1p-20f, -static_cast<int>(bits % 12));
    const bool negative = (bits & 0x1000) != 0;
    if (kind == SumKind::kStagnating) {
      value = rank == 0 ? 1.0f : std::ldexp(1.0f, -digits);
    } else if (kind == SumKind::kCancelling) {
      value = rank % 2 == 0 ? 64.0f * magnitude : -64.0f * magnitude;
    } else {
      value = negative && kind == SumKind::kBothSigns ? -magnitude : magnitude;
    }
  }
  return values;
}

}  // namespace

std::string NameOf(SumKind kind) {
  switch (kind) {
    case SumKind::kBothSigns:
      return "both_signs";
    case SumKind::kPositive:
      return "positive";
    case SumKind::kCancelling:
      return "cancelling";
    case SumKind::kStagnating:
      return "stagnating";
  }
  return "";
}

TestingSums::TestingSums(SumKind kind, DType dtype, int ranks, size_t count)
    : dtype_(dtype), exact_(count), magnitudes_(count) {
  std::mt19937_64 random(42);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float> values = Draw(kind, DigitsOf(dtype), rank, count, random);
    std::vector<uint16_t> wire(count);
    ConvertFromFloat(dtype, wire.data(), values.data(), count);
    ConvertToFloat(dtype, values.data(), wire.data(), count);
    for (size_t i = 0; i < count; ++i) {
      exact_[i] += values[i];
      magnitudes_[i] += std::fabs(values[i]);
    }
    inputs_.push_back(std::move(wire));
  }
}

double TestingSums::ValueOf(uint16_t code) const {
  float value;
  ConvertToFloat(dtype_, &value, &code, 1);
  return value;
}

double TestingSums::Error(size_t i, uint16_t sum) const {
  return std::fabs(ValueOf(sum) - exact_[i]);
}

double TestingSums::BoundOfOneRounding(size_t i, uint16_t sum) const {
  // The distance to the next number away from zero, halved.
  const double half_ulp = std::fabs(ValueOf(static_cast<uint16_t>(sum + 1)) - ValueOf(sum)) / 2;
  return half_ulp + static_cast<double>(inputs_.size() - 1) * 0x1p-24 * magnitudes_[i];
}

double TestingSums::BoundOfEveryHop(size_t i) const {
  return static_cast<double>(inputs_.size() - 1) * std::ldexp(1.0, -DigitsOf(dtype_)) *
         magnitudes_[i];
}

}  // namespace rz::testing
