// The calls of columns (collectives/hierarchy) in simulated time: each is what a communicator of
// one rank a host would do, by the algorithm that it would choose.
#ifndef RINGZERO_COLLECTIVES_SIMULATION_COLUMN_CALLS_H_
#define RINGZERO_COLLECTIVES_SIMULATION_COLUMN_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/algorithm.h"
#include "collectives/call.h"
#include "collectives/plan.h"
#include "collectives/selection.h"
#include "collectives/simulation/shared_schedules.h"
#include "collectives/simulation/simulated_call.h"
#include "collectives/simulation/stepper.h"
#include "collectives/simulation/traffic.h"

namespace rz {

// What all columns share: how they choose, and their schedules.
class ColumnPlanner {
 public:
  // Of the columns of `whole`, which outlives it.
  ColumnPlanner(const SimulatedCall* whole, int hosts);

  struct Planned {
    const SharedSchedules* schedules = nullptr;
    std::vector<int64_t> offsets;  // of a v variant
    std::vector<Plan> plans;       // one a schedule
  };
  // InvalidArgument: no algorithm can carry it
  absl::StatusOr<std::unique_ptr<Planned>> PlanOf(const Call& call);

 private:
  const SimulatedCall& whole_;
  const int hosts_;
  Selector selector_;
  std::map<std::tuple<Collective, Algorithm, Format>, SharedSchedules> schedules_;
};

// One column. Members begin its calls in one order, each at its own time.
class ColumnCalls {
 public:
  // members[h] is the rank on host h. All outlive it.
  ColumnCalls(const SimulatedCall* whole, ColumnPlanner* planner, Traffic* traffic,
              std::vector<int> members);

  // The member of a host begins its next call; the call's number. Errors as PlanOf.
  absl::StatusOr<int64_t> Begin(int host, const Call& call);
  bool IsThrough(int host, int64_t number) const;

  // Lets the member do all it can in the calls that it has begun.
  void Move(int host);

  // OK, or Internal: schedules do not fit each other.
  const absl::Status& failure() const { return failure_; }
  // Where a member waits; OK: nowhere.
  absl::Status Stuck() const;

 private:
  struct Running {
    std::unique_ptr<ColumnPlanner::Planned> planned;
    std::unique_ptr<Stepper> stepper;
  };

  const SimulatedCall& whole_;
  ColumnPlanner& planner_;
  Traffic& traffic_;
  const std::vector<int> members_;
  std::deque<Running> running_;
  int64_t first_ = 0;          // the number of the first of them
  std::vector<int64_t> next_;  // by host
  absl::Status failure_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SIMULATION_COLUMN_CALLS_H_
