// Variables of an environment, as text and as numbers.
#ifndef RINGZERO_RUNTIME_LAUNCH_VARIABLES_H_
#define RINGZERO_RUNTIME_LAUNCH_VARIABLES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace rz {

// As getenv: null where a variable is not set. An empty variable counts as not set below.
using GetVariable = std::function<const char*(const char*)>;

std::optional<std::string> VariableText(const GetVariable& get, const std::string& name);

//   InvalidArgument  no whole number within min to max; the message names variable and value
absl::StatusOr<std::optional<int>> VariableNumber(const GetVariable& get, const std::string& name,
                                                  int min, int max);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_LAUNCH_VARIABLES_H_
