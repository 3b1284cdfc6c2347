#include "collectives/schedule_cache.h"

#include "collectives/schedule/all_to_all.h"
#include "collectives/schedule/barrier.h"
#include "collectives/schedule/broadcast.h"
#include "collectives/schedule/bruck.h"
#include "collectives/schedule/gather.h"
#include "collectives/schedule/halving.h"
#include "collectives/schedule/pairwise.h"
#include "collectives/schedule/reduce.h"
#include "collectives/schedule/ring.h"

namespace rz {
namespace {

Schedule BuildReduceScatter(Algorithm algorithm, Format partials, int32_t rank, int32_t world) {
  switch (algorithm) {
    case Algorithm::kPairwise:
      return PairwiseReduceScatter(rank, world, partials);
    case Algorithm::kHalving:
      return HalvingReduceScatter(rank, world);
    default:
      return RingReduceScatter(rank, world, partials);
  }
}

// Mostly a reduce_scatter on the same chunks, so that the bits are the same.
Schedule BuildAllReduce(Algorithm algorithm, Format partials, int32_t rank, int32_t world) {
  if (algorithm == Algorithm::kBruck) return BruckAllReduce(rank, world, partials);
  Schedule schedule = BuildReduceScatter(algorithm, partials, rank, world);
  schedule.Append(algorithm == Algorithm::kHalving ? BruckAllGather(rank, world, Place::kOutput)
                                                   : RingAllGather(rank, world, Place::kOutput));
  return schedule;
}

Schedule BuildReduce(Algorithm algorithm, Format partials, int32_t rank, int32_t world,
                     int32_t root) {
  switch (algorithm) {
    case Algorithm::kDirect:
      return DirectReduce(rank, world, root, partials);
    case Algorithm::kBinomial:
      return BinomialReduce(rank, world, root);
    case Algorithm::kChain:
      return ChainReduce(rank, world, root, partials);
    default:
      return ReduceScatterGather(rank, world, root,
                                 BuildReduceScatter(algorithm, partials, rank, world));
  }
}

Schedule BuildBroadcast(Algorithm algorithm, int32_t rank, int32_t world, int32_t root) {
  switch (algorithm) {
    case Algorithm::kChain:
      return ChainBroadcast(rank, world, root);
    case Algorithm::kScatterAllGather:
      return ScatterAllGatherBroadcast(rank, world, root);
    default:
      return BinomialBroadcast(rank, world, root);
  }
}

}  // namespace

Schedule BuildSchedule(Collective collective, Algorithm algorithm, Format partials, int32_t rank,
                       int32_t world, int32_t root) {
  switch (collective) {
    case Collective::kReduceScatter:
      return BuildReduceScatter(algorithm, partials, rank, world);
    case Collective::kAllReduce:
      return BuildAllReduce(algorithm, partials, rank, world);
    case Collective::kAllGather:
      return algorithm == Algorithm::kBruck ? BruckAllGather(rank, world, Place::kInput)
                                            : RingAllGather(rank, world, Place::kInput);
    case Collective::kBroadcast:
      return BuildBroadcast(algorithm, rank, world, root);
    case Collective::kReduce:
      return BuildReduce(algorithm, partials, rank, world, root);
    case Collective::kAllToAll:
      return algorithm == Algorithm::kBruck ? BruckAllToAll(rank, world)
                                            : PairwiseAllToAll(rank, world);
    case Collective::kGather:
      return algorithm == Algorithm::kBinomial ? BinomialGather(rank, world, root)
                                               : DirectGather(rank, world, root);
    case Collective::kScatter:
      return algorithm == Algorithm::kBinomial ? BinomialScatter(rank, world, root)
                                               : DirectScatter(rank, world, root);
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
