// PlanMemory: the plans and descriptions of the last calls, so that a call like one of them costs
// neither: a third of what a small call over shared memory would cost its rank.
#ifndef RINGZERO_COLLECTIVES_PLAN_MEMORY_H_
#define RINGZERO_COLLECTIVES_PLAN_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectives/call.h"
#include "collectives/call_descriptor.h"
#include "collectives/plan.h"

namespace rz {

// Everything about a call but its buffers, and its number and history.
struct PlannedCall {
  Plan plan;
  CallDescriptor described;
};

// Threads: one owner. Allocates nothing.
class PlanMemory {
 public:
  // What was kept of a call that differed from this one in its buffers alone, at the same
  // `generation` of what plans depend on beside the call; null: there is none. Valid until the next
  // Keep.
  const PlannedCall* Find(const Call& call, int64_t generation) const;

  // Keeps `planned`, if it does not refer to the call's counts, factor or function, which are the
  // caller's.
  void Keep(const Call& call, int64_t generation, const PlannedCall& planned);

 private:
  struct Kept {
    int64_t generation = -1;
    Collective collective = Collective::kBarrier;
    int64_t count = 0;
    DType dtype = DType::kFloat32;
    ReduceOp op = ReduceOp::kSum;
    Rank root = Rank(0);
    int64_t tile_chunk = 0;
    std::optional<NumericMode> mode;
    bool has_kernel = false;
    PlannedCall planned;
  };
  static constexpr size_t kKept = 8;

  static bool IsKept(const Call& call);

  std::array<Kept, kKept> kept_;
  size_t next_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_PLAN_MEMORY_H_
