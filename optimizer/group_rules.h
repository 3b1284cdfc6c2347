// GroupRules: which parameters are of which group, by patterns of their names.
#ifndef RINGZERO_OPTIMIZER_GROUP_RULES_H_
#define RINGZERO_OPTIMIZER_GROUP_RULES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/layout/flat_layout.h"

namespace rz {

// Parameters whose names match are of `group`, and frozen or not.
struct GroupRule {
  std::string match;
  size_t group = 0;
  bool frozen = false;
};

// `*` stands for any text, also none and with dots in it, `?` for any one byte.
bool MatchesGlob(std::string_view pattern, std::string_view text);

// Gives each parameter what the first rule says that matches its name, and leaves alone those that
// none matches. Parameters that are tied go with the one they are tied to. A rule all of whose
// parameters an earlier one has makes an empty group.
//   InvalidArgument  a rule matches no name, or none but of parameters that are tied to others; the
//                    message has it and the names
absl::Status AssignGroups(const std::vector<GroupRule>& rules, std::vector<ParamSpec>* specs);

// All of them as text.
std::string Fingerprint(const std::vector<GroupRule>& rules);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_GROUP_RULES_H_
