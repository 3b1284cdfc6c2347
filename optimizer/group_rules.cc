#include "optimizer/group_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

// Enough to see what names look like.
constexpr size_t kListedNames = 20;

std::string NamesOf(const std::vector<ParamSpec>& specs) {
  std::string names;
  for (size_t i = 0; i < std::min(specs.size(), kListedNames); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", specs[i].name);
  }
  if (specs.size() > kListedNames) {
    absl::StrAppend(&names, " and ", specs.size() - kListedNames, " more");
  }
  return names;
}

}  // namespace

bool MatchesGlob(std::string_view pattern, std::string_view text) {
  // Where the last star stands, and from where on in the text what follows it was tried.
  size_t star = std::string_view::npos, tried = 0;
  size_t p = 0, t = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++tried;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

absl::Status AssignGroups(const std::vector<GroupRule>& rules, std::vector<ParamSpec>* specs) {
  for (const GroupRule& rule : rules) {
    const bool matches = std::any_of(specs->begin(), specs->end(), [&](const ParamSpec& spec) {
      return MatchesGlob(rule.match, spec.name);
    });
    if (matches) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the parameter group '", rule.match,
                     "' matches no parameter; there are: ", NamesOf(*specs)));
  }
  for (ParamSpec& spec : *specs) {
    const std::string& tied_to = spec.tied_to;
    const auto owner = std::find_if(specs->begin(), specs->end(), [&](const ParamSpec& other) {
      return !tied_to.empty() && other.name == tied_to;
    });
    if (owner != specs->end()) {
      spec.group = owner->group;
      spec.frozen = owner->frozen;
      continue;
    }
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const GroupRule& candidate) {
      return MatchesGlob(candidate.match, spec.name);
    });
    if (rule == rules.end()) continue;
    spec.group = rule->group;
    spec.frozen = rule->frozen;
  }
  return absl::OkStatus();
}

std::string Fingerprint(const std::vector<GroupRule>& rules) {
  std::string text;
  for (const GroupRule& rule : rules) {
    absl::StrAppend(&text, rule.match, " ", rule.group, rule.frozen ? " frozen;" : ";");
  }
  return text;
}

}  // namespace rz
