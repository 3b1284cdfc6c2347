#include "collectives/plan_memory.h"

namespace rz {

bool PlanMemory::IsKept(const Call& call) {
  return !call.has_counts && call.op != ReduceOp::kPremulSum && call.op != ReduceOp::kFunction;
}

const PlannedCall* PlanMemory::Find(const Call& call, int64_t generation) const {
  if (!IsKept(call)) return nullptr;
  for (const Kept& kept : kept_) {
    if (kept.count == call.count && kept.collective == call.collective &&
        kept.dtype == call.dtype && kept.op == call.op && kept.root == call.root &&
        kept.tile_chunk == call.options.tile_chunk && kept.mode == call.options.numeric_mode &&
        kept.has_kernel == (call.options.kernel != nullptr) && kept.generation == generation) {
      return &kept.planned;
    }
  }
  return nullptr;
}

void PlanMemory::Keep(const Call& call, int64_t generation, const PlannedCall& planned) {
  if (!IsKept(call)) return;
  Kept& kept = kept_[next_];
  next_ = (next_ + 1) % kKept;
  kept.generation = generation;
  kept.collective = call.collective;
  kept.count = call.count;
  kept.dtype = call.dtype;
  kept.op = call.op;
  kept.root = call.root;
  kept.tile_chunk = call.options.tile_chunk;
  kept.mode = call.options.numeric_mode;
  kept.has_kernel = call.options.kernel != nullptr;
  kept.planned = planned;
}

}  // namespace rz
