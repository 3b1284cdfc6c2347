// StepTrace: what one rank did in its last steps, moment by moment: a ring of events that was
// allocated at the start. The newest stay.
#ifndef RINGZERO_OPTIMIZER_STEP_TRACE_H_
#define RINGZERO_OPTIMIZER_STEP_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace rz {

// The parts of a step, in the order of StepPart: what the thread was doing. Then what was under way
// beside it.
enum class TraceKind : uint8_t {
  kForward,
  kBackward,
  kCommunication,
  kOptimizer,
  kOther,
  kReduce,    // of a bucket's gradients
  kGather,    // of a unit's parameters before use, or of a bucket's after their update
  kControl,   // of the votes
  kReplicas,  // of a shard's gradients, among those who hold it
};

// Where in the model; below 0: nowhere in particular.
struct StepPlace {
  int32_t unit = -1;
  int32_t bucket = -1;

  friend bool operator==(const StepPlace&, const StepPlace&) = default;
};

struct TraceEvent {
  int64_t begin_ns = 0;  // of this rank's clock
  int64_t end_ns = 0;
  int64_t bytes = 0;  // of the buffer that a collective works on
  int64_t step = 0;   // from 1
  StepPlace place;
  TraceKind kind = TraceKind::kOther;
  int32_t lane = 0;  // among those of its kind, for whoever draws them
};

class StepTrace {
 public:
  // Allocates room for so many events, at least one.
  explicit StepTrace(size_t capacity) : ring_(capacity) {}

  // In the order of their ends.
  void Record(const TraceEvent& event);

  // Events that have made room for others.
  int64_t dropped() const { return recorded_ - static_cast<int64_t>(size()); }

  // The first step of which nothing was dropped.
  int64_t first_whole_step() const { return last_dropped_step_ + 1; }

  // The events of steps from `first_step` on, by their begins. Reorders what is held: for the end,
  // with nothing to be recorded after it.
  absl::Span<TraceEvent> TakeSorted(int64_t first_step);

 private:
  size_t size() const;

  std::vector<TraceEvent> ring_;
  int64_t recorded_ = 0;
  int64_t last_dropped_step_ = 0;
};

// Gives each event the first lane of its kind that is free from its begin on. `sorted` is by
// begins. What the thread did is in lane 0: it does one thing at a time.
void AssignLanes(absl::Span<TraceEvent> sorted);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STEP_TRACE_H_
