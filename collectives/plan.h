// Plan: everything about one collective call but its buffers. A small value, made at the call and
// copied into the running operation; the schedule it points to is shared by all calls of its kind.
#ifndef RINGZERO_COLLECTIVES_PLAN_H_
#define RINGZERO_COLLECTIVES_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "collectives/algorithm.h"
#include "collectives/lane_layout.h"
#include "collectives/local_step.h"
#include "collectives/schedule/schedule.h"
#include "runtime/base/dtype.h"

namespace rz {

struct Plan {
  Collective collective = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kDissemination;
  ReduceOp op = ReduceOp::kSum;  // of reductions
  Arithmetic arithmetic;
  const Schedule* schedule = nullptr;
  LaneLayout lanes{ChunkLayout(0, 1, 0), 1};
  int64_t count = 0;

  // The caller's buffer is a packed shard, not the whole space.
  bool input_is_shard() const { return collective == Collective::kAllGather; }
  bool output_is_shard() const { return collective == Collective::kReduceScatter; }

  // Scratch of one lane: its bytes, and where a slot begins in it.
  size_t ScratchBytes() const;
  size_t SlotOffset(int32_t slot) const;

  // "reduce_scatter of 1000 bfloat16 sum by pairwise".
  std::string Describe() const;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_PLAN_H_
