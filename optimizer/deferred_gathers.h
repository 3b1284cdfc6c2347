// DeferredGathers: a step's gathers of new parameters that go on behind the next forward
// (ZeroConfig::gather_behind_forward). They were started in one order on all ranks, the units that
// forward uses first before the others, and end in that order; whoever uses a unit's parameters
// waits for its own.
//
// Threads: the optimizer's. Allocates nothing after construction.
#ifndef RINGZERO_OPTIMIZER_DEFERRED_GATHERS_H_
#define RINGZERO_OPTIMIZER_DEFERRED_GATHERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "optimizer/step_timeline.h"
#include "optimizer/step_trace.h"

namespace rz {

class DeferredGathers {
 public:
  // At most `buckets` of them at once. All pointers outlive it.
  DeferredGathers(Communicator* communicator, StepTimeline* timeline, size_t units, size_t buckets);

  // Takes over a gather of parameters of place.unit, which the timeline has been told of.
  void Add(const Operation& operation, StepPlace place);

  bool pending() const { return ended_ < gathers_.size(); }
  bool IsPending(size_t unit) const { return pending_of_[unit] > 0; }

  // Deals with those that have ended. The communicator's first cause where one has failed.
  absl::Status Poll();

  // Waits for those of a unit, or for all.
  //   the communicator's first cause
  absl::Status Await(size_t unit);
  absl::Status AwaitAll();

  // Ends them by failing the communicator, so that their memory may go.
  void Abandon();

 private:
  struct Gather {
    Operation operation;
    StepPlace place;
  };

  // Waits for the first of them.
  absl::Status AwaitNext();

  Communicator* const communicator_;
  StepTimeline* const timeline_;
  std::vector<Gather> gathers_;  // in the order of their start; the first ended_ have ended
  size_t ended_ = 0;
  std::vector<int> pending_of_;  // by unit
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_DEFERRED_GATHERS_H_
