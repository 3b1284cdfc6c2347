#include "optimizer/layout/group_runs.h"

namespace rz {

GroupRuns::GroupRuns(const FlatLayout& layout) {
  // In flat order: the last declared first.
  for (size_t i = layout.size(); i-- > 0;) {
    if (layout.range(i).count == 0 || layout.spec(i).frozen || layout.IsTied(i)) continue;
    const size_t group = layout.spec(i).group;
    if (runs_.empty() || runs_.back().group != group) {
      runs_.push_back({layout.range(i).offset, group});
    }
  }
  if (runs_.empty()) runs_.push_back({0, 0});
  runs_.front().begin = 0;
}

}  // namespace rz
