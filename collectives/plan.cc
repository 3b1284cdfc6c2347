#include "collectives/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr size_t kCacheLine = 64;

}  // namespace

int64_t Plan::lane_count() const {
  return std::max(lanes.lane_count(), output_layout().lane_count());
}

LaneLayout::Position Plan::At(int64_t lane) const {
  return lane < lanes.lane_count() ? lanes.At(lane) : output_layout().At(lane);
}

size_t Plan::SlotBytes(Format format) const {
  const size_t bytes = static_cast<size_t>(lanes.largest_block()) * arithmetic.SizeOfFormat(format);
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

size_t Plan::SlotOffset(int32_t slot) const {
  const size_t wire = static_cast<size_t>(std::min(slot, schedule->wire_slots));
  const size_t wide = static_cast<size_t>(slot) - wire;
  return wire * SlotBytes(Format::kWire) + wide * SlotBytes(Format::kAccumulator);
}

size_t Plan::ScratchBytes() const {
  const size_t blocks = SlotOffset(schedule->wire_slots + schedule->accumulator_slots);
  if (schedule->lane_slots == 0) return blocks;
  return blocks + static_cast<size_t>(schedule->lane_slots) *
                      static_cast<size_t>(lanes.largest_lane()) * SizeOf(arithmetic.dtype);
}

std::string Plan::Describe() const {
  std::string text = absl::StrCat(std::string(NameOf(collective)), has_counts ? "_v" : "");
  if (collective != Collective::kBarrier) {
    absl::StrAppend(&text, " of ", count, " ", std::string(NameOf(arithmetic.dtype)));
  }
  if (IsReduction(collective)) absl::StrAppend(&text, " ", std::string(NameOf(op)));
  if (HasRoot(collective)) absl::StrAppend(&text, ", root ", root.value());
  absl::StrAppend(&text, " by ", std::string(NameOf(algorithm)));
  return text;
}

}  // namespace rz
