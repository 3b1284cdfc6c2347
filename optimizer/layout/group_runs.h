// GroupRuns: which parameter group each trained element of the flat space is of, as runs.
//
// Parameters of several groups stand in the flat space as they were declared, so that units and
// buckets do not depend on groups; an update of a piece of it goes run by run. Padding is of the
// group of the parameter before it (its elements are zero and stay so).
#ifndef RINGZERO_OPTIMIZER_LAYOUT_GROUP_RUNS_H_
#define RINGZERO_OPTIMIZER_LAYOUT_GROUP_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/chunk_layout.h"
#include "optimizer/layout/flat_layout.h"

namespace rz {

class GroupRuns {
 public:
  explicit GroupRuns(const FlatLayout& layout);

  // Calls visit(offset in `flat`, count, group) for each run of one group in it, in order. Neither
  // allocates nor looks at more than those runs, but for a binary search.
  template <typename Visit>
  void ForEach(Range flat, Visit visit) const;

  size_t size() const { return runs_.size(); }

 private:
  struct Run {
    int64_t begin;  // to the next one's, in the flat space
    size_t group;
  };

  std::vector<Run> runs_;
};

template <typename Visit>
void GroupRuns::ForEach(Range flat, Visit visit) const {
  auto run = std::partition_point(runs_.begin(), runs_.end(),
                                  [&](const Run& r) { return r.begin <= flat.offset; });
  for (int64_t at = flat.offset; at < flat.end(); ++run) {
    const int64_t end = run == runs_.end() ? flat.end() : std::min(run->begin, flat.end());
    if (end > at) visit(at - flat.offset, end - at, (run - 1)->group);
    at = end;
  }
}

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_LAYOUT_GROUP_RUNS_H_
