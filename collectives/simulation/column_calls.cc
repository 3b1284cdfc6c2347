#include "collectives/simulation/column_calls.h"

#include <algorithm>
#include <utility>

#include "collectives/chunk_layout.h"
#include "collectives/lane_layout.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

Request RequestOf(const Call& call, NumericMode mode) {
  Request request;
  request.collective = call.collective;
  request.dtype = call.dtype;
  request.op = call.op;
  request.count = call.count;
  request.mode = mode;
  request.has_counts = call.has_counts;
  for (int64_t count : call.counts) {
    request.count += count;
    request.largest_count = std::max(request.largest_count, count);
  }
  return request;
}

LaneLayout LayoutOf(const Call& call, const AlgorithmTraits& traits, int hosts, int64_t slice,
                    absl::Span<const int64_t> offsets) {
  if (call.collective == Collective::kBarrier) return {ChunkLayout(1, 1, 0), 1};
  if (call.has_counts) return {offsets, slice};
  return {ChunkLayout(call.count, traits.one_block ? 1 : hosts, 0), slice};
}

}  // namespace

ColumnPlanner::ColumnPlanner(const SimulatedCall* whole, int hosts)
    : whole_(*whole),
      hosts_(hosts),
      selector_(hosts, whole->slice_bytes, LinkKind::kNetwork, WantedAlgorithms{}) {
  selector_.UseHosts({hosts, 1, 1, whole->cores_are_few});
}

absl::StatusOr<std::unique_ptr<ColumnPlanner::Planned>> ColumnPlanner::PlanOf(const Call& call) {
  const Request request = RequestOf(call, whole_.mode);
  RZ_ASSIGN_OR_RETURN(const Algorithm algorithm, selector_.Choose(request));
  const AlgorithmTraits& traits = TraitsOf(call.collective, algorithm);
  const Format partials = PartialsOf(algorithm, call.dtype, whole_.mode);
  const auto key = std::tuple(call.collective, algorithm, partials);
  auto schedules = schedules_.find(key);
  if (schedules == schedules_.end()) {
    schedules = schedules_
                    .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                             std::forward_as_tuple(call.collective, algorithm, partials, hosts_))
                    .first;
  }
  auto planned = std::make_unique<Planned>();
  planned->schedules = &schedules->second;
  if (call.has_counts) {
    planned->offsets = {0};
    for (int64_t count : call.counts) planned->offsets.push_back(planned->offsets.back() + count);
  }
  const int64_t slice =
      traits.unsliced ? LaneLayout::kUnsliced : selector_.SliceElements(traits, call.dtype);
  Plan plan;
  plan.collective = call.collective;
  plan.algorithm = algorithm;
  plan.root = call.root;
  plan.arithmetic.dtype = call.dtype;
  plan.count = request.count;
  plan.has_counts = call.has_counts;
  plan.lanes = LayoutOf(call, traits, hosts_, slice, planned->offsets);
  planned->plans.assign(planned->schedules->size(), plan);
  for (size_t i = 0; i < planned->plans.size(); ++i) {
    planned->plans[i].schedule = &planned->schedules->schedule(i);
  }
  return planned;
}

ColumnCalls::ColumnCalls(const SimulatedCall* whole, ColumnPlanner* planner, Traffic* traffic,
                         std::vector<int> members)
    : whole_(*whole),
      planner_(*planner),
      traffic_(*traffic),
      members_(std::move(members)),
      next_(members_.size()) {}

absl::StatusOr<int64_t> ColumnCalls::Begin(int host, const Call& call) {
  const int64_t number = next_[host]++;
  if (number == first_ + static_cast<int64_t>(running_.size())) {
    Running running;
    RZ_ASSIGN_OR_RETURN(running.planned, planner_.PlanOf(call));
    running.stepper =
        std::make_unique<Stepper>(running.planned->schedules, running.planned->plans, &traffic_,
                                  whole_.lanes_in_flight, whole_.reduce_bandwidth, members_);
    running_.push_back(std::move(running));
  }
  running_[static_cast<size_t>(number - first_)].stepper->Move(host);
  return number;
}

bool ColumnCalls::IsThrough(int host, int64_t number) const {
  return number < first_ || running_[static_cast<size_t>(number - first_)].stepper->IsThrough(host);
}

void ColumnCalls::Move(int host) {
  for (int64_t number = first_; number < next_[host]; ++number) {
    Stepper& stepper = *running_[static_cast<size_t>(number - first_)].stepper;
    if (!stepper.IsThrough(host)) stepper.Move(host);
    failure_.Update(stepper.failure());
  }
  while (!running_.empty() && running_.front().stepper->AreAllThrough()) {
    running_.pop_front();
    ++first_;
  }
}

absl::Status ColumnCalls::Stuck() const {
  return running_.empty() ? absl::OkStatus() : running_.front().stepper->Stuck();
}

}  // namespace rz
