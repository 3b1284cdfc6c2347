#include "runtime/base/duration_text.h"

#include <cmath>

#include "absl/strings/numbers.h"

namespace rz {

std::optional<absl::Duration> ParseDuration(const std::string& text) {
  absl::Duration parsed;
  if (double seconds; absl::SimpleAtod(text, &seconds)) {
    parsed = std::isnan(seconds) ? absl::InfiniteDuration() : absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &parsed)) {
    return std::nullopt;
  }
  if (parsed == absl::InfiniteDuration() || parsed == -absl::InfiniteDuration()) {
    return std::nullopt;
  }
  return parsed;
}

}  // namespace rz
