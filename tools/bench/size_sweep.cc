#include "tools/bench/size_sweep.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/flag_set.h"

namespace rz {
namespace {

constexpr size_t kMaxSizes = 1'000'000;

// The size after `size`, or one beyond every limit.
double Next(const SizeSweep& sweep, int64_t size) {
  if (sweep.step_factor == 1) {
    return static_cast<double>(size) + static_cast<double>(sweep.step_bytes);
  }
  const double next = std::floor(static_cast<double>(size) * sweep.step_factor);
  return std::max(next, static_cast<double>(size) + 1);
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> SizesOf(const SizeSweep& sweep) {
  if (sweep.min_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("-b is not negative, not ", sweep.min_bytes));
  }
  if (sweep.max_bytes < sweep.min_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("-e ", sweep.max_bytes, " is below -b ", sweep.min_bytes));
  }
  if (!(sweep.step_factor >= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("-f is 1 (off) or larger, not ", sweep.step_factor));
  }
  if (sweep.step_factor == 1 && sweep.step_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("-i is at least 1, not ", sweep.step_bytes));
  }
  std::vector<int64_t> sizes = {sweep.min_bytes};
  while (true) {
    const double next = Next(sweep, sizes.back());
    if (next > static_cast<double>(sweep.max_bytes)) return sizes;
    if (sizes.size() == kMaxSizes) {
      return absl::InvalidArgumentError(absl::StrCat("-b ", sweep.min_bytes, " to -e ",
                                                     sweep.max_bytes, " is more than ", kMaxSizes,
                                                     " sizes: take larger steps (-f 2)"));
    }
    sizes.push_back(static_cast<int64_t>(next));
  }
}

absl::StatusOr<std::vector<int64_t>> ParseSizes(const std::string& text) {
  std::vector<int64_t> sizes;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int64_t size = 0;
    const absl::Status status = ParseSize({part.data(), part.size()}, SizeUnit::kBinary, &size);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--sizes takes ", status.message(), ", between commas, not '", part, "'"));
    }
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace rz
