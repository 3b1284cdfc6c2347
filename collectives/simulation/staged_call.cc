#include "collectives/simulation/staged_call.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/cost_model.h"
#include "collectives/hierarchy/hierarchy.h"
#include "collectives/hierarchy/hierarchy_work.h"
#include "collectives/hierarchy/part.h"
#include "collectives/lane_memory.h"
#include "collectives/simulation/column_calls.h"
#include "collectives/simulation/traffic.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr int64_t kMessagesBetweenReports = int64_t{1} << 18;

// Nobody is ever there: parts that carry no payload hand out addresses alone.
std::byte* Nowhere() {
  static std::byte place;
  return &place;
}

int64_t BlockBytes(const Call& call) {
  const int64_t block =
      call.has_counts ? *std::max_element(call.counts.begin(), call.counts.end()) : call.count;
  return block * static_cast<int64_t>(SizeOf(call.dtype));
}

// The ranks of one host, of which `present` are simulated: their stages, one after another.
class HostStages final : public TrafficListener {
 public:
  HostStages(std::vector<int> present, int ranks, const StageOptions& options, Traffic* traffic)
      : present_(std::move(present)),
        ranks_(ranks),
        local_time_(options.local_time == nullptr ? PredictSharedTime : options.local_time),
        traffic_(*traffic) {}

  // One of the ranks begins stage `number`, its next one.
  void Begin(int64_t number, const Call& call) {
    const auto at = static_cast<size_t>(number - done_);
    if (arrived_.size() <= at) arrived_.resize(at + 1);
    if (++arrived_[at] < present_.size()) return;
    free_at_ = std::max(free_at_, traffic_.now()) +
               SimTimeOf(local_time_(call.collective, ranks_, BlockBytes(call)));
    traffic_.SetTimer(free_at_, {this, 0, 0});
  }

  bool IsDone(int64_t number) const { return number < done_; }

  void OnTimer(const Traffic::Timer& /*timer*/) override {
    ++done_;
    arrived_.pop_front();
    for (int rank : present_) traffic_.MakeDue(rank);
  }
  void OnSent(const Traffic::Message& /*message*/) override {}
  void OnDelivered(const Traffic::Message& /*message*/) override {}

 private:
  const std::vector<int> present_;
  const int ranks_;
  absl::Duration (*const local_time_)(Collective, int, int64_t);
  Traffic& traffic_;
  int64_t done_ = 0;
  std::deque<size_t> arrived_;  // of the stages after those
  SimTime free_at_ = 0;
};

// A part of the simulated kind: it fails at nothing.
class SimulatedPart : public Part {
 public:
  int Poll() override { return 0; }
  absl::Status trouble() const override { return absl::OkStatus(); }
  void Fail(const absl::Status& /*cause*/) override {}
  bool idle() const override { return true; }
  std::string DescribeWait(int64_t number) const override { return absl::StrCat("call ", number); }
  int WaitsFor(int64_t /*number*/) const override { return -1; }
  absl::StatusOr<absl::Span<std::byte>> Scratch(size_t bytes) override {
    return absl::Span<std::byte>(Nowhere(), bytes);
  }
  bool carries_payload() const override { return false; }
};

class HostPart final : public SimulatedPart {
 public:
  explicit HostPart(HostStages* stages) : stages_(*stages) {}

  absl::StatusOr<int64_t> Start(const Call& call) override {
    stages_.Begin(next_, call);
    return next_++;
  }
  bool IsDone(int64_t number) const override { return stages_.IsDone(number); }

 private:
  HostStages& stages_;
  int64_t next_ = 0;
};

class ColumnPart final : public SimulatedPart {
 public:
  ColumnPart(ColumnCalls* calls, int host) : calls_(*calls), host_(host) {}

  absl::StatusOr<int64_t> Start(const Call& call) override { return calls_.Begin(host_, call); }
  bool IsDone(int64_t number) const override { return calls_.IsThrough(host_, number); }
  int Poll() override {
    calls_.Move(host_);
    return 0;
  }

 private:
  ColumnCalls& calls_;
  const int host_;
};

// Of columns that are alike.
LinkOptions OneForAll(LinkOptions links, int columns) {
  links.stands_for = columns;
  return links;
}

class StagedWorld {
 public:
  StagedWorld(const SimulatedCall& call, const StageOptions& options)
      : call_(call),
        hosts_(HostsOf(call)),
        columns_(options.one_column ? 1 : hosts_.columns()),
        traffic_(call.world, OneForAll(call.links, hosts_.columns() / columns_)),
        planner_(&call_, hosts_.hosts()),
        hierarchies_(static_cast<size_t>(call.world)) {
    for (int k = 0; k < columns_; ++k) {
      column_calls_.push_back(
          std::make_unique<ColumnCalls>(&call_, &planner_, &traffic_, hosts_.Column(k)));
    }
    for (int h = 0; h < hosts_.hosts(); ++h) {
      const absl::Span<const int> ranks = hosts_.RanksOf(h);
      std::vector<int> present(ranks.begin(), ranks.end());
      if (options.one_column) present.resize(1);
      ranks_left_ += static_cast<int>(present.size());
      stages_.push_back(std::make_unique<HostStages>(present, static_cast<int>(ranks.size()),
                                                     options, &traffic_));
      for (int rank : present) AddRank(rank);
    }
  }

  absl::StatusOr<SimulatedTimes> Run(const Plan& plan, const SimulationProgress& progress) {
    for (auto& hierarchy : hierarchies_) {
      if (hierarchy != nullptr) hierarchy->Start(0, plan, call_.mode, Nowhere(), Nowhere());
    }
    for (int rank = 0; rank < call_.world; ++rank) traffic_.MakeDue(rank);
    int64_t next_report = kMessagesBetweenReports;
    while (true) {
      for (int rank : traffic_.TakeDue()) RZ_RETURN_IF_ERROR(Move(rank));
      if (ranks_left_ == 0) return Times();
      if (!traffic_.Step()) return Stuck();
      if (progress != nullptr && traffic_.delivered() >= next_report) {
        progress(traffic_.delivered() * (hosts_.columns() / columns_));
        next_report = traffic_.delivered() + kMessagesBetweenReports;
      }
    }
  }

 private:
  void AddRank(int rank) {
    const int host = hosts_.HostOf(rank);
    const int index = hosts_.IndexOf(rank);
    std::unique_ptr<Part> column;
    if (index < columns_) column = std::make_unique<ColumnPart>(column_calls_[index].get(), host);
    hierarchies_[rank] = std::make_unique<Hierarchy>(
        hosts_, rank, std::make_unique<HostPart>(stages_[host].get()), std::move(column),
        [this](int64_t /*number*/, const absl::Status& /*result*/) { --ranks_left_; });
  }

  absl::Status Move(int rank) {
    Hierarchy* const hierarchy = hierarchies_[rank].get();
    if (hierarchy == nullptr) return absl::OkStatus();
    while (hierarchy->Poll() > 0) {
    }
    RZ_RETURN_IF_ERROR(hierarchy->trouble());
    const int index = hosts_.IndexOf(rank);
    return index < columns_ ? column_calls_[index]->failure() : absl::OkStatus();
  }

  SimulatedTimes Times() const {
    const SimLinks& links = traffic_.links();
    const int64_t stands_for = hosts_.columns() / columns_;
    return {.time = links.now(),
            .messages = links.messages() * stands_for,
            .rank_bytes = links.most_sent_by_rank(),
            .host_bytes = links.most_sent_by_host() * stands_for,
            .rack_bytes = links.most_sent_by_rack() * stands_for};
  }

  absl::Status Stuck() const {
    for (const auto& column : column_calls_) RZ_RETURN_IF_ERROR(column->Stuck());
    return absl::InternalError(
        absl::StrCat("nothing is under way, and ", ranks_left_, " ranks are not through"));
  }

  const SimulatedCall& call_;
  const HostMap hosts_;
  const int columns_;  // that are stepped
  Traffic traffic_;
  ColumnPlanner planner_;
  std::vector<std::unique_ptr<ColumnCalls>> column_calls_;
  std::vector<std::unique_ptr<HostStages>> stages_;
  std::vector<std::unique_ptr<Hierarchy>> hierarchies_;
  int ranks_left_ = 0;
};

}  // namespace

HostMap HostsOf(const SimulatedCall& call) {
  std::vector<int> hosts;
  for (int rank = 0; rank < call.world; ++rank) hosts.push_back(rank / call.links.ranks_per_host);
  return HostMap(hosts);
}

// Columns get out of each other's way in their first rounds, and are behind for it: at most for as
// long as messages are under way.
SimTime ApartOf(const Plan& plan, const LinkOptions& links) {
  constexpr int kRounds = 4;
  if (links.host_bandwidth == 0 || plan.lane_count() == 0) return 0;
  const LaneMemory lane = {&plan, plan.At(0)};
  double bytes = 0;
  for (const Round& round : plan.schedule->rounds) {
    double sent = 0;
    for (const Transfer& transfer : round.transfers) {
      if (!IsOutgoing(transfer.kind) || !IsData(transfer.kind)) continue;
      sent += static_cast<double>(lane.ByteCountOf(transfer));
    }
    bytes = std::max(bytes, sent);
  }
  const double seconds = kRounds * (links.stands_for - 1) * bytes / links.host_bandwidth;
  return SimTimeOf(std::min(links.latency, absl::Seconds(seconds)));
}

bool ColumnsAreAlike(const SimulatedCall& call) {
  return call.world % call.links.ranks_per_host == 0 &&
         (call.collective == Collective::kAllReduce ||
          call.collective == Collective::kReduceScatter ||
          call.collective == Collective::kAllGather);
}

absl::StatusOr<StageShape> ShapeOf(const SimulatedCall& call) {
  RZ_ASSIGN_OR_RETURN(const Plan plan, PlanOf(call, nullptr));
  const HostMap hosts = HostsOf(call);
  StageShape shape;
  shape.columns = hosts.columns();
  shape.across = call;
  shape.across.world = hosts.hosts();
  shape.across.links = OneForAll(call.links, hosts.columns());
  shape.across.links.ranks_per_host = 1;
  HierarchyWork work(&hosts, 0, /*carries_payload=*/false);
  work.Reset(&plan, call.mode, Nowhere(), Nowhere());
  if (work.slices() == 0) return shape;
  const int64_t in_slice = plan.lanes.ElementsBefore(plan.At(0), plan.lanes.blocks());
  shape.slices = in_slice == 0 ? 1 : static_cast<double>(plan.lanes.count()) / in_slice;
  const auto local = [&](const std::optional<Call>& stage) {
    return stage.has_value()
               ? PredictSharedTime(stage->collective, hosts.largest_host(), BlockBytes(*stage))
               : absl::ZeroDuration();
  };
  shape.in = local(work.In(0, Nowhere()));
  shape.out = local(work.Out(0, Nowhere()));
  const std::optional<Call> across = work.Across(0, Nowhere());
  if (!across.has_value()) return shape;
  ColumnPlanner planner(&call, hosts.hosts());
  RZ_ASSIGN_OR_RETURN(const auto planned, planner.PlanOf(*across));
  const Plan& first = planned->plans.front();
  shape.across.collective = first.collective;
  shape.across.algorithm = first.algorithm;
  shape.across.count = first.count;
  shape.apart = ApartOf(first, shape.across.links);
  shape.messages =
      planned->schedules->MessagesOfLane() * first.lane_count() * shape.columns * work.slices();
  return shape;
}

absl::StatusOr<SimulatedTimes> SimulateStages(const SimulatedCall& call,
                                              const StageOptions& options,
                                              const SimulationProgress& progress) {
  RZ_ASSIGN_OR_RETURN(const Plan plan, PlanOf(call, nullptr));
  return StagedWorld(call, options).Run(plan, progress);
}

}  // namespace rz
