// This rank's schedules, built once each. They do not depend on counts or dtypes, so there are few:
// one a collective, algorithm and format of partial sums, and one a root where there is a root.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_CACHE_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "collectives/algorithm.h"
#include "collectives/schedule/schedule.h"
#include "runtime/base/types.h"

namespace rz {

// Rank `rank`'s schedule; `algorithm` is one of those known for `collective`. `partials` matters to
// reductions, `root` to collectives that have one.
Schedule BuildSchedule(Collective collective, Algorithm algorithm, Format partials, int32_t rank,
                       int32_t world, int32_t root);

class ScheduleCache {
 public:
  ScheduleCache(Rank rank, int world) : rank_(rank), world_(world) {}

  // The schedule lives as long as the cache.
  const Schedule* Get(Collective collective, Algorithm algorithm, Format partials, Rank root);

 private:
  using Key = std::tuple<Collective, Algorithm, Format, Rank>;

  const Rank rank_;
  const int world_;
  std::map<Key, std::unique_ptr<const Schedule>> schedules_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_CACHE_H_
