// LaneMemory: where the pieces a schedule names lie in the memory of one running lane.
#ifndef RINGZERO_COLLECTIVES_LANE_MEMORY_H_
#define RINGZERO_COLLECTIVES_LANE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "collectives/lane_layout.h"
#include "collectives/plan.h"
#include "collectives/schedule/schedule.h"

namespace rz {

struct LaneMemory {
  const Plan* plan = nullptr;
  LaneLayout::Position position;
  std::byte* input = nullptr;  // only read; operands of both directions share one type
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;

  // What a transfer of data moves; empty where its blocks are.
  absl::Span<std::byte> BytesOf(const Transfer& transfer) const;

  // How many bytes those are. Touches no memory and needs none.
  size_t ByteCountOf(const Transfer& transfer) const;

  // Elements a local step is about.
  int64_t CountOf(const LocalStep& step) const;

  // The operand `ref` of a step on block `block`.
  std::byte* AddressOf(BlockRef ref, int32_t block) const;

 private:
  const LaneLayout& LayoutOf(BlockRef ref) const;
  std::byte* CallerMemory(BlockRef ref) const;
  int64_t LaneElements() const;
  std::byte* LaneSlotAddress(int32_t slot) const;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_LANE_MEMORY_H_
