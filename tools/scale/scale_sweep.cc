#include "tools/scale/scale_sweep.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/algorithm.h"
#include "collectives/simulation/closed_formula.h"
#include "collectives/simulation/shared_schedules.h"
#include "collectives/simulation/staged_call.h"
#include "runtime/base/status_macros.h"
#include "tools/bench/plot_axis.h"

namespace rz {
namespace {

// Of one (collective, algorithm, ranks): all sizes with the same schedules.
class Series {
 public:
  Series(const ScaleConfig& config, const ScaleListener& listener, std::vector<ScaleRow>& rows)
      : config_(config), listener_(listener), rows_(rows) {}

  absl::Status Run(Collective collective, Algorithm algorithm, int ranks) {
    schedules_.reset();
    for (int64_t size : config_.sizes) {
      const SimulatedCall call = CallOf(config_, collective, algorithm, ranks, size);
      const std::string name = NameOfCall(call, size);
      const absl::StatusOr<Plan> plan = PlanOf(call, nullptr);
      if (!plan.ok()) {
        Skip(name, plan.status().message());
        continue;
      }
      const bool cubic = TraitsOf(collective, algorithm).footprint == Footprint::kWorldSquared;
      if (cubic && ranks > kMaxRanksOfCubicSchedules) {
        Skip(name, absl::StrCat("its schedules grow with the cube of the ranks: ",
                                kMaxRanksOfCubicSchedules, " at most"));
        continue;
      }
      RZ_ASSIGN_OR_RETURN(const int64_t messages, MessagesOf(call, *plan));
      const int64_t columns = ColumnsOfOne(call, messages);
      if (messages / columns > kMaxSimulatedMessages) {
        Skip(name, absl::StrCat(messages, " messages are too many to step"));
        continue;
      }
      const auto progress = [&](int64_t done) { listener_.on_progress(name, done, messages); };
      RZ_ASSIGN_OR_RETURN(const SimulatedTimes times, Times(call, columns > 1, progress));
      rows_.push_back({collective, algorithm, ranks, size, times, ClosedFormula(call)});
      listener_.on_row(rows_.back());
    }
    return absl::OkStatus();
  }

 private:
  // For how many columns a stepped one stands.
  static int64_t ColumnsOfOne(const SimulatedCall& call, int64_t messages) {
    const bool one = call.algorithm == Algorithm::kHierarchical && ColumnsAreAlike(call) &&
                     messages > kMaxMessagesOfAllColumns;
    return one ? call.links.ranks_per_host : 1;
  }

  absl::StatusOr<int64_t> MessagesOf(const SimulatedCall& call, const Plan& plan) {
    if (call.algorithm == Algorithm::kHierarchical) {
      RZ_ASSIGN_OR_RETURN(const StageShape shape, ShapeOf(call));
      return shape.messages;
    }
    if (!schedules_.has_value()) {
      schedules_.emplace(call.collective, call.algorithm, call.partials(), call.world);
    }
    return schedules_->MessagesOfLane() * plan.lane_count();
  }

  absl::StatusOr<SimulatedTimes> Times(const SimulatedCall& call, bool one_column,
                                       const SimulationProgress& progress) const {
    if (call.algorithm == Algorithm::kHierarchical) {
      return SimulateStages(call, {.one_column = one_column}, progress);
    }
    return Simulate(call, *schedules_, progress);
  }

  static std::string NameOfCall(const SimulatedCall& call, int64_t size) {
    return absl::StrCat(std::string(NameOf(call.collective)), " of ",
                        SizeLabel(static_cast<double>(size)), " by ",
                        std::string(NameOf(call.algorithm)), " on ", call.world, " ranks");
  }

  void Skip(const std::string& name, absl::string_view why) const {
    listener_.on_skipped(absl::StrCat(name, ": left out: ", why));
  }

  const ScaleConfig& config_;
  const ScaleListener& listener_;
  std::vector<ScaleRow>& rows_;
  std::optional<SharedSchedules> schedules_;  // of the calls of one Run
};

// Of those that are asked for.
std::string NoAlgorithm(Collective collective) {
  std::vector<std::string> own;
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    if (traits.collective == collective) own.emplace_back(NameOf(traits.algorithm));
  }
  return absl::StrCat(std::string(NameOf(collective)),
                      ": left out: it has no algorithm of --algorithm; it has ",
                      absl::StrJoin(own, ", "));
}

}  // namespace

std::optional<double> ScaleRow::formula_us() const {
  if (!formula.has_value()) return std::nullopt;
  return static_cast<double>(*formula) * 1e-6;
}

std::optional<double> ScaleRow::difference_percent() const {
  if (formula.value_or(0) <= 0) return std::nullopt;
  return (static_cast<double>(simulated.time) / static_cast<double>(*formula) - 1) * 100;
}

SimulatedCall CallOf(const ScaleConfig& config, Collective collective, Algorithm algorithm,
                     int ranks, int64_t size_bytes) {
  SimulatedCall call;
  call.collective = collective;
  call.algorithm = algorithm;
  call.dtype = config.dtype;
  call.mode = config.mode;
  call.world = ranks;
  call.count = size_bytes / static_cast<int64_t>(SizeOf(config.dtype));
  if (collective == Collective::kAllToAll) call.count /= ranks;
  call.slice_bytes = static_cast<size_t>(config.slice_bytes);
  call.lanes_in_flight = static_cast<int>(config.lanes_in_flight);
  call.links = config.links;
  call.reduce_bandwidth = config.reduce_bandwidth;
  return call;
}

absl::StatusOr<std::vector<ScaleRow>> RunSweep(const ScaleConfig& config,
                                               const ScaleListener& listener) {
  std::vector<ScaleRow> rows;
  Series series(config, listener, rows);
  for (Collective collective : config.collectives) {
    if (config.AlgorithmsOf(collective).empty()) listener.on_skipped(NoAlgorithm(collective));
    for (int ranks : config.ranks) {
      for (Algorithm algorithm : config.AlgorithmsOf(collective)) {
        RZ_RETURN_IF_ERROR(series.Run(collective, algorithm, ranks));
      }
    }
  }
  return rows;
}

}  // namespace rz
