// A call by Algorithm::kHierarchical in simulated time: every rank's Hierarchy as it is
// (collectives/hierarchy), over parts that carry no payload. A column's calls are stepped
// (column_calls.h), all columns over the same links; a stage within a host takes what the cost
// model predicts, from when the last of its ranks has come and the stage before is over, for all
// its ranks. Packing and copying take no time.
#ifndef RINGZERO_COLLECTIVES_SIMULATION_STAGED_CALL_H_
#define RINGZERO_COLLECTIVES_SIMULATION_STAGED_CALL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/collective.h"
#include "collectives/hierarchy/host_map.h"
#include "collectives/simulation/simulated_call.h"

namespace rz {

// Of the links: ranks 0 .. ranks_per_host - 1 are on the first host and so on; the last one may
// have fewer.
HostMap HostsOf(const SimulatedCall& call);

struct StageOptions {
  // Only the first column is stepped and stands for all (LinkOptions::stands_for):
  // ColumnsAreAlike.
  bool one_column = false;
  // What a stage on `ranks` ranks with blocks of at most so many bytes takes; null: what
  // PredictSharedTime says.
  absl::Duration (*local_time)(Collective collective, int ranks, int64_t block_bytes) = nullptr;
};

// What the first slice of a call does; the others, but for the last one, do the same.
struct StageShape {
  double slices = 0;       // the last one counts by its elements
  int columns = 0;         // of hosts that have as many ranks
  absl::Duration in, out;  // of the first stage and of the last, within a host
  SimulatedCall across;    // the first column's call, which stands for all
  SimTime apart = 0;       // at most, by which columns are behind one that is alone
  int64_t messages = 0;    // of all slices and columns, about
};
// InvalidArgument  as PlanOf
absl::StatusOr<StageShape> ShapeOf(const SimulatedCall& call);

// Whether all ranks do the same, so that one column can stand for all: hosts have the same number
// of ranks, and there is no root, whose host would send more than others.
bool ColumnsAreAlike(const SimulatedCall& call);

// Bytes and messages are those that leave hosts.
//   InvalidArgument  as PlanOf
//   Internal         as Simulate
absl::StatusOr<SimulatedTimes> SimulateStages(const SimulatedCall& call,
                                              const StageOptions& options,
                                              const SimulationProgress& progress = nullptr);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SIMULATION_STAGED_CALL_H_
