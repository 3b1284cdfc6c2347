#include "collectives/simulation/simulated_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/chunk_layout.h"
#include "collectives/lane_layout.h"
#include "collectives/selection.h"
#include "collectives/simulation/stepper.h"
#include "collectives/simulation/traffic.h"
#include "runtime/base/status_macros.h"

namespace rz {

absl::StatusOr<Plan> PlanOf(const SimulatedCall& call, const Schedule* schedule) {
  RZ_RETURN_IF_ERROR(CheckLinks(call.links));
  WantedAlgorithms wanted;
  wanted[static_cast<size_t>(call.collective)] = call.algorithm;
  Selector selector(call.world, call.slice_bytes, LinkKind::kNetwork, wanted);
  if (call.algorithm == Algorithm::kHierarchical) {
    const int most = std::min(call.world, call.links.ranks_per_host);
    const int last = call.world % call.links.ranks_per_host;
    if (call.world <= call.links.ranks_per_host) selector.ShareMemory();
    selector.UseHosts({.hosts = (call.world - 1) / call.links.ranks_per_host + 1,
                       .smallest = last == 0 ? most : last,
                       .largest = most,
                       .cores_are_few = call.cores_are_few});
  }
  const Request request = {
      .collective = call.collective, .dtype = call.dtype, .count = call.count, .mode = call.mode};
  RZ_RETURN_IF_ERROR(selector.Choose(request).status());
  const AlgorithmTraits& traits = TraitsOf(call.collective, call.algorithm);
  Plan plan;
  plan.collective = call.collective;
  plan.algorithm = call.algorithm;
  plan.arithmetic.dtype = call.dtype;
  plan.schedule = schedule;
  plan.count = call.collective == Collective::kAllToAll ? call.count * call.world : call.count;
  const int64_t slice =
      traits.unsliced ? LaneLayout::kUnsliced : selector.SliceElements(traits, call.dtype);
  plan.lanes =
      call.collective == Collective::kBarrier
          ? LaneLayout(ChunkLayout(1, 1, 0), 1)
          : LaneLayout(ChunkLayout(plan.count, traits.one_block ? 1 : call.world, 0), slice);
  return plan;
}

absl::StatusOr<SimulatedTimes> Simulate(const SimulatedCall& call, const SharedSchedules& schedules,
                                        const SimulationProgress& progress) {
  if (schedules.world() != call.world) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a call of ", call.world, " ranks with schedules of ", schedules.world(), " ranks"));
  }
  std::vector<Plan> plans;
  for (size_t i = 0; i < schedules.size(); ++i) {
    RZ_ASSIGN_OR_RETURN(Plan plan, PlanOf(call, &schedules.schedule(i)));
    plans.push_back(std::move(plan));
  }
  Traffic traffic(call.world, call.links);
  Stepper stepper(&schedules, plans, &traffic, call.lanes_in_flight, call.reduce_bandwidth);
  RZ_ASSIGN_OR_RETURN(const SimTime time, stepper.Run(progress));
  const SimLinks& links = traffic.links();
  return SimulatedTimes{.time = time,
                        .messages = links.messages(),
                        .rank_bytes = links.most_sent_by_rank(),
                        .host_bytes = links.most_sent_by_host(),
                        .rack_bytes = links.most_sent_by_rack()};
}

}  // namespace rz
