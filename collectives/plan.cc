#include "collectives/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr size_t kCacheLine = 64;

size_t SlotBytes(const Plan& plan, Format format) {
  const size_t bytes =
      static_cast<size_t>(plan.lanes.largest_block()) * plan.arithmetic.SizeOfFormat(format);
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace

size_t Plan::ScratchBytes() const {
  return SlotOffset(schedule->wire_slots + schedule->accumulator_slots);
}

size_t Plan::SlotOffset(int32_t slot) const {
  const size_t wire = static_cast<size_t>(std::min(slot, schedule->wire_slots));
  const size_t wide = static_cast<size_t>(slot) - wire;
  return wire * SlotBytes(*this, Format::kWire) + wide * SlotBytes(*this, Format::kAccumulator);
}

std::string Plan::Describe() const {
  std::string text(NameOf(collective));
  if (collective != Collective::kBarrier) {
    absl::StrAppend(&text, " of ", count, " ", std::string(NameOf(arithmetic.dtype)));
  }
  if (IsReduction(collective)) absl::StrAppend(&text, " ", std::string(NameOf(op)));
  absl::StrAppend(&text, " by ", std::string(NameOf(algorithm)));
  return text;
}

}  // namespace rz
