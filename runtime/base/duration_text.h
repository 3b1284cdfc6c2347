// Times as people write them, on command lines and in the environment.
#ifndef RINGZERO_RUNTIME_BASE_DURATION_TEXT_H_
#define RINGZERO_RUNTIME_BASE_DURATION_TEXT_H_

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace rz {

// "1.5s", "300ms", "1h5m"; a bare number is seconds. Nothing where it is none of these, infinite or
// not a number.
std::optional<absl::Duration> ParseDuration(const std::string& text);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_DURATION_TEXT_H_
