// PlanMemory: the plans of the last calls, so that a call like one of them costs no planning: a
// third of what a small call over shared memory costs its rank.
#ifndef RINGZERO_COLLECTIVES_PLAN_MEMORY_H_
#define RINGZERO_COLLECTIVES_PLAN_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectives/call.h"
#include "collectives/plan.h"

namespace rz {

// Threads: one owner. Allocates nothing.
class PlanMemory {
 public:
  // The plan of a call that differed from this one in its buffers alone, kept at the same
  // `generation` of what plans depend on beside the call; null: there is none. Valid until the next
  // Keep.
  const Plan* Find(const Call& call, int64_t generation) const;

  // Keeps `plan`, if it does not refer to the call's counts, factor or function, which are the
  // caller's.
  void Keep(const Call& call, int64_t generation, const Plan& plan);

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
    Plan plan;
  };
  static constexpr size_t kKept = 8;

  static bool IsKept(const Call& call);

  std::array<Kept, kKept> kept_;
  size_t next_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_PLAN_MEMORY_H_
