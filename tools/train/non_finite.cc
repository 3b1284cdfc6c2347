#include "tools/train/non_finite.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace rz {

float LargestMagnitude(absl::Span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return std::numeric_limits<float>::infinity();
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

std::string DescribeSkip(absl::Span<const int64_t> first_bad,
                         const std::vector<MlpParameter>& parameters) {
  for (size_t rank = 0; rank < first_bad.size(); ++rank) {
    const auto bad = static_cast<size_t>(first_bad[rank]);
    if (bad < parameters.size()) {
      return absl::StrCat("rank ", rank, "'s gradient of ", parameters[bad].name, " is not finite");
    }
  }
  return "the gradient of each rank is finite, their mean is not";
}

}  // namespace rz
