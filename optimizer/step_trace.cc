#include "optimizer/step_trace.h"

#include <algorithm>
#include <array>

namespace rz {
namespace {

constexpr size_t kKinds = static_cast<size_t>(TraceKind::kControl) + 1;

}  // namespace

size_t StepTrace::size() const { return std::min(static_cast<size_t>(recorded_), ring_.size()); }

void StepTrace::Record(const TraceEvent& event) {
  TraceEvent& place = ring_[static_cast<size_t>(recorded_) % ring_.size()];
  if (size() == ring_.size()) last_dropped_step_ = std::max(last_dropped_step_, place.step);
  place = event;
  ++recorded_;
}

absl::Span<TraceEvent> StepTrace::TakeSorted(int64_t first_step) {
  const absl::Span<TraceEvent> held = absl::MakeSpan(ring_).first(size());
  auto* const end = std::remove_if(
      held.begin(), held.end(), [=](const TraceEvent& event) { return event.step < first_step; });
  std::sort(held.begin(), end, [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns < b.end_ns;
  });
  return held.first(static_cast<size_t>(end - held.begin()));
}

void AssignLanes(absl::Span<TraceEvent> sorted) {
  // When each lane is free.
  std::array<std::vector<int64_t>, kKinds> free_from;
  for (TraceEvent& event : sorted) {
    event.lane = 0;
    if (event.kind < TraceKind::kReduce) continue;
    std::vector<int64_t>& lanes = free_from[static_cast<size_t>(event.kind)];
    const auto lane = std::find_if(lanes.begin(), lanes.end(),
                                   [&](int64_t free) { return free <= event.begin_ns; });
    event.lane = static_cast<int32_t>(lane - lanes.begin());
    if (lane == lanes.end()) lanes.push_back(0);
    lanes[static_cast<size_t>(event.lane)] = event.end_ns;
  }
}

}  // namespace rz
