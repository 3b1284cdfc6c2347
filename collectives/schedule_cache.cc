#include "collectives/schedule_cache.h"

#include "collectives/schedule/barrier.h"
#include "collectives/schedule/broadcast.h"
#include "collectives/schedule/pairwise.h"
#include "collectives/schedule/ring.h"

namespace rz {
namespace {

Schedule BuildReduceScatter(Algorithm algorithm, Format partials, int32_t rank, int32_t world) {
  return algorithm == Algorithm::kPairwise ? PairwiseReduceScatter(rank, world, partials)
                                           : RingReduceScatter(rank, world, partials);
}

}  // namespace

Schedule BuildSchedule(Collective collective, Algorithm algorithm, Format partials, int32_t rank,
                       int32_t world, int32_t root) {
  switch (collective) {
    case Collective::kReduceScatter:
      return BuildReduceScatter(algorithm, partials, rank, world);
    case Collective::kAllReduce: {
      // On the same chunks, so its bits are those of reduce_scatter.
      Schedule schedule = BuildReduceScatter(algorithm, partials, rank, world);
      schedule.Append(RingAllGather(rank, world, Place::kOutput));
      return schedule;
    }
    case Collective::kAllGather:
      return RingAllGather(rank, world, Place::kInput);
    case Collective::kBroadcast:
      return algorithm == Algorithm::kChain ? ChainBroadcast(rank, world, root)
                                            : BinomialBroadcast(rank, world, root);
    case Collective::kBarrier:
      return DisseminationBarrier(rank, world);
  }
  return {};
}

const Schedule* ScheduleCache::Get(Collective collective, Algorithm algorithm, Format partials,
                                   Rank root) {
  std::unique_ptr<const Schedule>& slot = schedules_[{collective, algorithm, partials, root}];
  if (slot == nullptr) {
    slot = std::make_unique<const Schedule>(
        BuildSchedule(collective, algorithm, partials, rank_.value(), world_, root.value()));
  }
  return slot.get();
}

}  // namespace rz
