#include "optimizer/group_rules.h"

#include <algorithm>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

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

// By parameter: the one it is tied to; null where it is tied to none.
std::vector<const ParamSpec*> OwnersOf(const std::vector<ParamSpec>& specs) {
  std::unordered_map<std::string_view, const ParamSpec*> by_name;
  for (const ParamSpec& spec : specs) by_name.emplace(spec.name, &spec);
  std::vector<const ParamSpec*> owners;
  for (const ParamSpec& spec : specs) {
    const auto owner = spec.tied_to.empty() ? by_name.end() : by_name.find(spec.tied_to);
    owners.push_back(owner == by_name.end() ? nullptr : owner->second);
  }
  return owners;
}

// A rule is to be for some parameter that is of no other's group.
absl::Status CheckMatches(const GroupRule& rule, const std::vector<ParamSpec>& specs,
                          const std::vector<const ParamSpec*>& owners) {
  std::string tied;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!MatchesGlob(rule.match, specs[i].name)) continue;
    if (owners[i] == nullptr) return absl::OkStatus();
    tied = absl::StrCat("'", specs[i].name, "', which is tied to '", owners[i]->name,
                        "' and of its group; match that name");
  }
  return absl::InvalidArgumentError(
      tied.empty() ? absl::StrCat("the parameter group '", rule.match,
                                  "' matches no parameter; there are: ", NamesOf(specs))
                   : absl::StrCat("the parameter group '", rule.match, "' matches only ", tied));
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
  const std::vector<const ParamSpec*> owners = OwnersOf(*specs);
  for (const GroupRule& rule : rules) RZ_RETURN_IF_ERROR(CheckMatches(rule, *specs, owners));
  for (size_t i = 0; i < specs->size(); ++i) {
    ParamSpec& spec = (*specs)[i];
    if (const ParamSpec* owner = owners[i]; owner != nullptr) {
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
