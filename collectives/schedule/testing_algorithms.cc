#include "collectives/schedule/testing_algorithms.h"

#include <utility>

#include "collectives/schedule/all_to_all.h"
#include "collectives/schedule/barrier.h"
#include "collectives/schedule/broadcast.h"
#include "collectives/schedule/bruck.h"
#include "collectives/schedule/gather.h"
#include "collectives/schedule/halving.h"
#include "collectives/schedule/pairwise.h"
#include "collectives/schedule/rank_arithmetic.h"
#include "collectives/schedule/reduce.h"
#include "collectives/schedule/ring.h"

namespace rz {
namespace {

constexpr Format kFormats[] = {Format::kWire, Format::kAccumulator};

std::string Suffix(Format partials) { return partials == Format::kWire ? "_wire" : "_accumulator"; }

// A reduce_scatter, its all_reduce with either all_gather, and its reduce.
void AddReductions(std::vector<TestedAlgorithm>& all, const std::string& name, Claim claim,
                   const std::function<Schedule(int32_t, int32_t)>& scatter,
                   const std::function<ScheduleCost(int32_t)>& cost) {
  claim.goal = Goal::kReduceScatter;
  all.push_back({"reduce_scatter_" + name, claim,
                 [=](int32_t rank, int32_t world, int32_t) { return scatter(rank, world); }, cost});
  claim.goal = Goal::kAllReduce;
  all.push_back(
      {"all_reduce_" + name + "_ring", claim,
       [=](int32_t rank, int32_t world, int32_t) {
         Schedule schedule = scatter(rank, world);
         schedule.Append(RingAllGather(rank, world, Place::kOutput));
         return schedule;
       },
       [=](int32_t world) { return cost(world) + RingAllGatherCost(world, Place::kOutput); }});
  all.push_back(
      {"all_reduce_" + name + "_bruck", claim,
       [=](int32_t rank, int32_t world, int32_t) {
         Schedule schedule = scatter(rank, world);
         schedule.Append(BruckAllGather(rank, world, Place::kOutput));
         return schedule;
       },
       [=](int32_t world) { return cost(world) + BruckAllGatherCost(world, Place::kOutput); }});
  claim.goal = Goal::kReduce;
  all.push_back({"reduce_" + name + "_gather", claim,
                 [=](int32_t rank, int32_t world, int32_t root) {
                   return ReduceScatterGather(rank, world, root, scatter(rank, world));
                 },
                 [=](int32_t world) { return ReduceScatterGatherCost(world, cost(world)); }, true});
}

void AddReductions(std::vector<TestedAlgorithm>& all) {
  for (Format partials : kFormats) {
    const Claim claim{.partials = partials};
    AddReductions(
        all, "ring" + Suffix(partials), claim,
        [=](int32_t rank, int32_t world) { return RingReduceScatter(rank, world, partials); },
        [=](int32_t world) { return RingReduceScatterCost(world, partials); });
    AddReductions(
        all, "pairwise" + Suffix(partials), claim,
        [=](int32_t rank, int32_t world) { return PairwiseReduceScatter(rank, world, partials); },
        PairwiseReduceScatterCost);
    all.push_back({"all_reduce_bruck" + Suffix(partials),
                   {.goal = Goal::kAllReduce, .partials = partials},
                   [=](int32_t rank, int32_t world, int32_t) {
                     return BruckAllReduce(rank, world, partials);
                   },
                   BruckAllReduceCost,
                   false,
                   true});
    all.push_back({"reduce_direct" + Suffix(partials),
                   {.goal = Goal::kReduce, .partials = partials},
                   [=](int32_t rank, int32_t world, int32_t root) {
                     return DirectReduce(rank, world, root, partials);
                   },
                   DirectReduceCost,
                   true,
                   true});
    all.push_back({"reduce_chain" + Suffix(partials),
                   {.goal = Goal::kReduce, .partials = partials},
                   [=](int32_t rank, int32_t world, int32_t root) {
                     return ChainReduce(rank, world, root, partials);
                   },
                   [=](int32_t world) { return ChainReduceCost(world, partials); },
                   true});
  }
  AddReductions(all, "halving", {.order = Order::kAny}, HalvingReduceScatter,
                HalvingReduceScatterCost);
  all.push_back({"reduce_binomial",
                 {.goal = Goal::kReduce, .order = Order::kAny},
                 BinomialReduce,
                 BinomialReduceCost,
                 true});
}

}  // namespace

std::vector<TestedAlgorithm> TestedAlgorithms() {
  std::vector<TestedAlgorithm> all;
  AddReductions(all);
  const auto add = [&](const std::string& name, Goal goal, auto build, auto cost, bool has_root) {
    all.push_back({name, {.goal = goal}, build, cost, has_root});
  };
  const auto rootless = [](auto build) {
    return [build](int32_t rank, int32_t world, int32_t) { return build(rank, world); };
  };
  const auto from_input = [](auto build) {
    return
        [build](int32_t rank, int32_t world, int32_t) { return build(rank, world, Place::kInput); };
  };
  add(
      "all_gather_ring", Goal::kAllGather, from_input(RingAllGather),
      [](int32_t world) { return RingAllGatherCost(world, Place::kInput); }, false);
  add(
      "all_gather_bruck", Goal::kAllGather, from_input(BruckAllGather),
      [](int32_t world) { return BruckAllGatherCost(world, Place::kInput); }, false);
  add("broadcast_binomial", Goal::kBroadcast, BinomialBroadcast, BinomialBroadcastCost, true);
  add("broadcast_chain", Goal::kBroadcast, ChainBroadcast, ChainBroadcastCost, true);
  add("broadcast_scatter", Goal::kBroadcast, ScatterAllGatherBroadcast,
      ScatterAllGatherBroadcastCost, true);
  add("gather_direct", Goal::kGather, DirectGather, DirectGatherCost, true);
  add("gather_binomial", Goal::kGather, BinomialGather, BinomialGatherCost, true);
  add("scatter_direct", Goal::kScatter, DirectScatter, DirectGatherCost, true);
  add("scatter_binomial", Goal::kScatter, BinomialScatter, BinomialGatherCost, true);
  add("all_to_all_pairwise", Goal::kAllToAll, rootless(PairwiseAllToAll), PairwiseAllToAllCost,
      false);
  add("all_to_all_bruck", Goal::kAllToAll, rootless(BruckAllToAll), BruckAllToAllCost, false);
  add("barrier", Goal::kBarrier, rootless(DisseminationBarrier), DisseminationBarrierCost, false);
  return all;
}

std::vector<Schedule> SchedulesOf(const TestedAlgorithm& algorithm, int32_t world, int32_t root) {
  std::vector<Schedule> schedules;
  for (int32_t rank = 0; rank < world; ++rank) {
    schedules.push_back(algorithm.build(rank, world, root));
  }
  return schedules;
}

Claim ClaimOf(const TestedAlgorithm& algorithm, int32_t world, int32_t root) {
  Claim claim = algorithm.claim;
  claim.root = root;
  claim.most_roundings = CeilLog2(world);
  return claim;
}

}  // namespace rz
