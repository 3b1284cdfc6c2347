#include "tools/train/non_finite.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace rz {

float LargestMagnitude(absl::Span<const float> values) {
  // Magnitudes compare as their bits do; NaNs are above infinity.
  uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  }
  return std::bit_cast<float>(std::min(largest, 0x7f800000u));
}

}  // namespace rz
