#include "runtime/launch/variables.h"

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rz {

std::optional<std::string> VariableText(const GetVariable& get, const std::string& name) {
  const char* const value = get(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

absl::StatusOr<std::optional<int>> VariableNumber(const GetVariable& get, const std::string& name,
                                                  int min, int max) {
  const std::optional<std::string> text = VariableText(get, name);
  if (!text.has_value()) return std::optional<int>();
  int64_t value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < min || value > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: ", name, "=", absl::CHexEscape(*text),
                     " is not a whole number within ", min, " to ", max));
  }
  return std::optional<int>(static_cast<int>(value));
}

}  // namespace rz
