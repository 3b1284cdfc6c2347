#include "runtime/rendezvous/membership_text.h"

#include "absl/strings/str_cat.h"
#include "runtime/rendezvous/limits.h"

namespace rz {

std::string FormatRanks(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "no ranks";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t runs = 0;
  for (size_t begin = 0; begin < ranks.size();) {
    if (runs++ == limits::kMaxListedRuns) {
      absl::StrAppend(&text, " and ", ranks.size() - begin, " more");
      break;
    }
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end].value() == ranks[end - 1].value() + 1) ++end;
    absl::StrAppend(&text, begin == 0 ? "" : ", ", ranks[begin].value());
    // Two neighbours read better as "5, 6", but one form is enough.
    if (end - begin > 1) absl::StrAppend(&text, "-", ranks[end - 1].value());
    begin = end;
  }
  return text;
}

}  // namespace rz
