// A collective call of a large world in simulated time: the schedules of all ranks, stepped over
// links (runtime/transport/sim/sim_links.h) without a byte of payload.
//
// What a rank does is the executor's: the same plan, the same lanes of the same lengths, as many of
// them in flight, the same order of sends. simulated_call_test compares messages and times with
// those of real executors over a SimWorld with the same links.
//
// Computing takes no time but for additions, where reduce_bandwidth says so: a rank adds on one
// core, lane after lane, and posts nothing meanwhile. Copies, descriptors of calls (call_guard.h)
// and the time of a send itself are left out.
#ifndef RINGZERO_COLLECTIVES_SIMULATION_SIMULATED_CALL_H_
#define RINGZERO_COLLECTIVES_SIMULATION_SIMULATED_CALL_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/algorithm.h"
#include "collectives/collective.h"
#include "collectives/limits.h"
#include "collectives/plan.h"
#include "collectives/simulation/shared_schedules.h"
#include "runtime/base/dtype.h"
#include "runtime/transport/sim/sim_links.h"

namespace rz {

struct SimulatedCall {
  Collective collective = Collective::kReduceScatter;
  Algorithm algorithm = Algorithm::kRing;
  DType dtype = DType::kFloat32;
  NumericMode mode = NumericMode::kFast;
  int64_t count = 0;  // as in Call; the root, if any, is rank 0
  int world = 1;
  size_t slice_bytes = kDefaultSliceBytes;
  int lanes_in_flight = kDefaultLanesInFlight;

  LinkOptions links;

  // Ranks of a host outnumber its cores: communicators, which find that out, choose otherwise then.
  bool cores_are_few = false;

  // Bytes of the caller's dtype that a rank adds to others in a second; 0: in no time.
  double reduce_bandwidth = 0;

  // In which partial sums travel, where they do.
  Format partials() const { return PartialsOf(algorithm, dtype, mode); }
};

struct SimulatedTimes {
  SimTime time = 0;  // until the last rank is through
  int64_t messages = 0;

  // Bytes sent by the rank, host and rack that send most; of a host and a rack what leaves them.
  int64_t rank_bytes = 0;
  int64_t host_bytes = 0;
  int64_t rack_bytes = 0;

  friend bool operator==(const SimulatedTimes&, const SimulatedTimes&) = default;
};

// The plan that a communicator would make; `schedule` outlives it.
//   InvalidArgument  the links cannot be, or the algorithm cannot carry the call (as Selector)
absl::StatusOr<Plan> PlanOf(const SimulatedCall& call, const Schedule* schedule);

// Told now and then how many messages have arrived.
using SimulationProgress = std::function<void(int64_t messages)>;

// `schedules` are those of the call: Simulate has no use for the others.
//   InvalidArgument  as PlanOf, or the schedules are of another world
//   Internal         the schedules do not fit each other; the message says where ranks wait
absl::StatusOr<SimulatedTimes> Simulate(const SimulatedCall& call, const SharedSchedules& schedules,
                                        const SimulationProgress& progress = nullptr);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SIMULATION_SIMULATED_CALL_H_
