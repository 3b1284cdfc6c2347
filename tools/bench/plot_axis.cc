#include "tools/bench/plot_axis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rz {
namespace {

constexpr double kRoom = 1.25;  // beyond the least and the largest value
constexpr int kMaxSizeTicks = 10;
constexpr double kDecadesWithAllLabels = 2.5;

}  // namespace

LogAxis::LogAxis(absl::Span<const double> values) : low_(0), high_(0) {
  for (double value : values) {
    if (!(value > 0) || !std::isfinite(value)) continue;
    low_ = low_ == 0 ? value : std::min(low_, value);
    high_ = std::max(high_, value);
  }
  if (low_ == 0) {
    low_ = 1;
    high_ = 10;
  }
  low_ /= kRoom;
  high_ *= kRoom;
}

double LogAxis::Position(double value) const {
  return (std::log(value) - std::log(low_)) / (std::log(high_) - std::log(low_));
}

std::vector<Tick> LogAxis::DecimalTicks() const {
  std::vector<Tick> ticks;
  const bool all_labels = std::log10(high_ / low_) <= kDecadesWithAllLabels;
  const int first = static_cast<int>(std::floor(std::log10(low_)));
  const int last = static_cast<int>(std::ceil(std::log10(high_)));
  for (int decade = first; decade <= last; ++decade) {
    for (int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10, decade);
      if (value < low_ || value > high_) continue;
      ticks.push_back({value, digit == 1 || all_labels ? NumberLabel(value) : ""});
    }
  }
  return ticks;
}

std::vector<Tick> LogAxis::SizeTicks() const {
  std::vector<Tick> ticks;
  const int first = static_cast<int>(std::ceil(std::log2(low_)));
  const int last = static_cast<int>(std::floor(std::log2(high_)));
  const int step = std::max(1, (last - first) / kMaxSizeTicks + 1);
  // Multiples of the step, so that round sizes are among them.
  for (int power = first; power <= last; ++power) {
    if (((power % step) + step) % step != 0) continue;
    const double value = std::pow(2, power);
    ticks.push_back({value, SizeLabel(value)});
  }
  return ticks;
}

std::string SizeLabel(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(absl::StrFormat("%.4g", bytes), " ", kUnits[unit]);
}

std::string NumberLabel(double value) {
  if (value >= 1e6) return absl::StrFormat("%gM", value / 1e6);
  if (value >= 1e3) return absl::StrFormat("%gk", value / 1e3);
  return absl::StrFormat("%g", value);
}

}  // namespace rz
