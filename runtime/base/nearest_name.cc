#include "runtime/base/nearest_name.h"

#include <algorithm>
#include <cstddef>

namespace rz {
namespace {

// Optimal string alignment distance (Damerau 1964, restricted to one edit a substring).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string NearestName(std::string_view wrong, const std::vector<std::string>& known) {
  std::string nearest;
  size_t best = std::max<size_t>(2, wrong.size() / 2) + 1;
  for (const std::string& name : known) {
    if (const size_t distance = EditDistance(wrong, name); distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace rz
