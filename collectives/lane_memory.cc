#include "collectives/lane_memory.h"

namespace rz {

const LaneLayout& LaneMemory::LayoutOf(BlockRef ref) const {
  return ref.place == Place::kOutput ? plan->output_layout() : plan->input_layout();
}

int64_t LaneMemory::LaneElements() const {
  return plan->lanes.ElementsBefore(position, plan->lanes.blocks());
}

std::byte* LaneMemory::LaneSlotAddress(int32_t slot) const {
  const Schedule& schedule = *plan->schedule;
  return scratch + plan->SlotOffset(schedule.wire_slots + schedule.accumulator_slots) +
         static_cast<size_t>(slot) * static_cast<size_t>(LaneElements()) *
             SizeOf(plan->arithmetic.dtype);
}

std::byte* LaneMemory::CallerMemory(BlockRef ref) const {
  const bool is_input = ref.place == Place::kInput;
  const bool shard = is_input ? plan->input_is_shard() : plan->output_is_shard();
  const LaneLayout& layout = LayoutOf(ref);
  const int64_t offset =
      shard ? layout.ShardOffset(position) : layout.Block(position, ref.index).offset;
  return (is_input ? input : output) + static_cast<size_t>(offset) * SizeOf(plan->arithmetic.dtype);
}

std::byte* LaneMemory::AddressOf(BlockRef ref, int32_t block) const {
  switch (ref.place) {
    case Place::kInput:
    case Place::kOutput:
      return CallerMemory(ref);
    case Place::kScratch:
      return scratch + plan->SlotOffset(ref.index);
    case Place::kLaneSlot:
      return LaneSlotAddress(ref.index) +
             static_cast<size_t>(plan->lanes.ElementsBefore(position, block)) *
                 SizeOf(plan->arithmetic.dtype);
  }
  return nullptr;
}

size_t LaneMemory::ByteCountOf(const Transfer& transfer) const {
  const BlockRef ref = transfer.ref;
  const Format format = plan->schedule->FormatOf(ref);
  const size_t size = plan->arithmetic.SizeOfFormat(format);
  const auto runs = static_cast<size_t>(transfer.blocks);
  if (ref.place == Place::kLaneSlot) return runs * static_cast<size_t>(LaneElements()) * size;
  const LaneLayout& layout = LayoutOf(ref);
  const Range first = layout.Block(position, transfer.block);
  if (transfer.blocks == 1) return static_cast<size_t>(first.count) * size;
  if (ref.place == Place::kScratch) return runs * plan->SlotBytes(format);
  const Range last = layout.Block(position, transfer.block + transfer.blocks - 1);
  return static_cast<size_t>(last.end() - first.offset) * size;
}

absl::Span<std::byte> LaneMemory::BytesOf(const Transfer& transfer) const {
  const size_t bytes = ByteCountOf(transfer);
  if (bytes == 0) return {};
  const BlockRef ref = transfer.ref;
  return {
      ref.place == Place::kLaneSlot ? LaneSlotAddress(ref.index) : AddressOf(ref, transfer.block),
      bytes};
}

int64_t LaneMemory::CountOf(const LocalStep& step) const {
  const LaneLayout& layout =
      step.dst.place == Place::kOutput ? plan->output_layout() : plan->input_layout();
  return layout.Block(position, step.block).count;
}

}  // namespace rz
