// Plan: everything about one collective call but its buffers. A small value, made at the call and
// copied into the running operation; the schedule it points to is shared by all calls of its kind.
#ifndef RINGZERO_COLLECTIVES_PLAN_H_
#define RINGZERO_COLLECTIVES_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "collectives/algorithm.h"
#include "collectives/collective.h"
#include "collectives/lane_layout.h"
#include "collectives/local_step.h"
#include "collectives/schedule/schedule.h"
#include "runtime/base/dtype.h"
#include "runtime/base/types.h"

namespace rz {

struct Plan {
  Collective collective = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kDissemination;
  ReduceOp op = ReduceOp::kSum;  // of reductions
  Rank root = Rank(0);           // where there is one
  Arithmetic arithmetic;
  const Schedule* schedule = nullptr;

  // Of input and output; where the output has another one, of the input.
  LaneLayout lanes{ChunkLayout(0, 1, 0), 1};
  std::optional<LaneLayout> output_lanes;
  int64_t count = 0;
  bool has_counts = false;  // a v variant

  // The caller's buffer is a packed shard, not the whole space.
  bool input_is_shard() const {
    return collective == Collective::kAllGather || collective == Collective::kGather;
  }
  bool output_is_shard() const {
    return collective == Collective::kReduceScatter || collective == Collective::kScatter;
  }

  const LaneLayout& input_layout() const { return lanes; }
  const LaneLayout& output_layout() const { return output_lanes ? *output_lanes : lanes; }

  // Lanes of this rank, which in all_to_all_v are not those of others.
  int64_t lane_count() const;
  LaneLayout::Position At(int64_t lane) const;

  // Scratch of one lane: slots of one block each, at one stride a format; behind them the slots of
  // a lane each. Bytes of all of it, and of one block slot.
  size_t ScratchBytes() const;
  size_t SlotBytes(Format format) const;

  // Where slot `slot` begins; the lane slots begin where the block slots end.
  size_t SlotOffset(int32_t slot) const;

  // "reduce_scatter of 1000 bfloat16 sum by pairwise".
  std::string Describe() const;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_PLAN_H_
