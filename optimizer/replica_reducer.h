// ReplicaReducer: makes one gradient of those that each group of ranks has reduced to its shards,
// by an all_reduce over the ranks that hold the same shard, as a state machine that never waits.
//
// The shard is a flat space of its own, cut among the groups as the model is cut among ranks: tiles
// of groups * tile_chunk elements, chunk g of each summed for all by group g. So the order of a sum
// depends neither on buckets nor on the stage, and all groups send equally much. A run of whole
// tiles starts once all of it has been reduced within the group.
//
// Threads: the optimizer's. Allocates nothing once it is allocated.
#ifndef RINGZERO_OPTIMIZER_REPLICA_REDUCER_H_
#define RINGZERO_OPTIMIZER_REPLICA_REDUCER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/layout/partition.h"
#include "optimizer/model_state.h"
#include "optimizer/step_timeline.h"
#include "optimizer/zero_config.h"

namespace rz {

class ReplicaReducer {
 public:
  // `replica` is null where there is one group: then nothing is sent. All arguments outlive it.
  ReplicaReducer(Communicator* replica, const ZeroConfig* config, const ModelState* state,
                 StepTimeline* timeline)
      : replica_(replica), config_(config), state_(state), timeline_(timeline) {}

  // Of segments of the shard, each a multiple of groups * kAlignmentElements.
  //   as Partition::Create
  absl::Status Allocate(absl::Span<const int64_t> segments);

  // Moves what can be moved, when the first `ready` elements of the shard have been reduced within
  // the group; how many have been reduced over all of them.
  //   the communicator's first cause
  absl::StatusOr<int64_t> Advance(int64_t ready);

  // On to the next reduction of the whole shard. Requires that nothing is under way.
  void Reset() { started_ = completed_ = 0; }

  // The operation that has been under way longest; null: there is none.
  Operation* awaited();

  // After a failure: ends operations that may still hold their memory.
  void Drain();

 private:
  absl::Status StartNext(const Bucket& run);
  StepPlace PlaceOf(const Bucket& run) const { return {.bucket = static_cast<int32_t>(run.index)}; }

  Communicator* replica_;
  const ZeroConfig* config_;
  const ModelState* state_;
  StepTimeline* timeline_;
  std::optional<Partition> shard_;  // of the shard, among the groups
  // By run of tiles: those below started_ have been started, those below completed_ are done.
  std::vector<std::optional<Operation>> operations_;
  int64_t started_ = 0;
  int64_t completed_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_REPLICA_REDUCER_H_
