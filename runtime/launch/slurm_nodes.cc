#include "runtime/launch/slurm_nodes.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rz {

absl::StatusOr<std::string> FirstSlurmNode(const std::string& list) {
  const auto malformed = [&list] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::CHexEscape(list), "' is no list of nodes such as n1,n[03-05,9]"));
  };
  // Brackets stand for one of the numbers that they have; a comma outside of them ends the name.
  std::string name;
  size_t i = 0;
  while (i < list.size() && list[i] != ',') {
    if (list[i] != '[') {
      name += list[i++];
      continue;
    }
    const size_t close = list.find(']', i);
    if (close == std::string::npos) return malformed();
    const size_t end = std::min(close, list.find_first_of(",-", i));
    const std::string number = list.substr(i + 1, end - i - 1);
    if (number.empty() || !std::all_of(number.begin(), number.end(), absl::ascii_isdigit)) {
      return malformed();
    }
    name += number;
    i = close + 1;
  }
  const auto of_a_name = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), of_a_name)) return malformed();
  return name;
}

}  // namespace rz
