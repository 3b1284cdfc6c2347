#include "tools/train/clock_alignment.h"

#include <algorithm>
#include <array>

#include "absl/time/time.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/types.h"

namespace rz {
namespace {

// The first ones find ranks still on their way; a few quiet ones are enough for the bounds.
constexpr size_t kBarriers = 32;

}  // namespace

ClockAlignment Align(absl::Span<const BarrierTimes> own, absl::Span<const BarrierTimes> first) {
  int64_t most = own[0].left_ns - first[0].entered_ns;
  int64_t least = own[0].entered_ns - first[0].left_ns;
  for (size_t k = 1; k < own.size(); ++k) {
    most = std::min(most, own[k].left_ns - first[k].entered_ns);
    least = std::max(least, own[k].entered_ns - first[k].left_ns);
  }
  ClockAlignment alignment;
  alignment.zero_ns = first.back().left_ns;
  alignment.error_ns = (most - least + 1) / 2;
  alignment.ahead_ns = least + (most - least) / 2;
  if (least <= 0 && most >= 0) {
    alignment.ahead_ns = 0;
    alignment.error_ns = std::max(-least, most);
  }
  return alignment;
}

absl::StatusOr<ClockAlignment> AlignClocks(Communicator* communicator, const Clock& clock) {
  std::array<BarrierTimes, kBarriers> own;
  for (BarrierTimes& times : own) {
    times.entered_ns = absl::ToInt64Nanoseconds(clock.Now());
    RZ_RETURN_IF_ERROR(communicator->Barrier());
    times.left_ns = absl::ToInt64Nanoseconds(clock.Now());
  }
  std::array<BarrierTimes, kBarriers> first = own;
  RZ_RETURN_IF_ERROR(communicator->Broadcast(first.data(), 2 * kBarriers, DType::kInt64, Rank(0)));
  ClockAlignment alignment = Align(own, first);
  if (communicator->rank() == Rank(0)) alignment.ahead_ns = alignment.error_ns = 0;
  return alignment;
}

}  // namespace rz
