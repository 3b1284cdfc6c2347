// StepTimeline: where the wall time of a step goes, on one rank.
//
// At every moment of a step the rank's thread is in one part: forward or backward, which the
// model's program enters; communication, while the thread waits for collectives or moves them, and
// the optimizer's own computing, which the optimizer enters; other is all that nobody claims. So
// the parts add up to the step's wall time exactly. Communication that stands among the parts is
// what nothing hides ("exposed"); hidden is the time in which the thread was in another part while
// at least one collective was under way, from its start until it was seen to be done.
//
// The clock is read where the thread changes from one part to another, and nowhere else; with a
// trace, which records every stay in a part and every collective, at those too.
//
// Threads: the optimizer's. Enter from another one is ignored: a shard kernel that a progress
// thread runs is nothing that the optimizer's thread does. Allocates nothing, but for a trace's
// first steps.
#ifndef RINGZERO_OPTIMIZER_STEP_TIMELINE_H_
#define RINGZERO_OPTIMIZER_STEP_TIMELINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "optimizer/step_trace.h"
#include "runtime/base/clock.h"

namespace rz {

// In the order of TraceKind.
enum class StepPart : uint8_t { kForward, kBackward, kCommunication, kOptimizer, kOther };
inline constexpr size_t kStepPartCount = 5;

// "forward", "backward", "exposed communication", "optimizer", "other".
std::string_view NameOf(StepPart part);
std::ostream& operator<<(std::ostream& out, StepPart part);

struct StepTimes {
  std::array<absl::Duration, kStepPartCount> parts;  // by StepPart
  absl::Duration hidden;                             // communication behind the other parts

  absl::Duration& operator[](StepPart part) { return parts[static_cast<size_t>(part)]; }
  absl::Duration operator[](StepPart part) const { return parts[static_cast<size_t>(part)]; }

  // Wall time: the sum of the parts.
  absl::Duration total() const;

  StepTimes& operator+=(const StepTimes& other);
};

// What the thread is doing, and for which part of the model.
struct StepMoment {
  StepPart part = StepPart::kOther;
  StepPlace place;
};

class StepTimeline {
 public:
  // The clock outlives the timeline.
  explicit StepTimeline(const Clock* clock) : clock_(clock) {}

  // Records what follows in `trace`, which outlives the timeline or is taken away with null. Its
  // steps are counted from here. Between steps.
  void set_trace(StepTrace* trace);

  // Begins a step, in StepPart::kOther, unless one has begun.
  void Begin();

  // Ends the step. Requires that one has begun.
  StepTimes End();

  // The thread is in `part` from here on, for `place`. Returns what it was doing. Between steps
  // nothing is measured.
  StepMoment Enter(StepPart part, StepPlace place = {});

  // A collective is under way from here on, on `bytes` of memory; or is so no more. Of one kind and
  // place there is one at a time. Within kCommunication.
  void CollectiveBegan(TraceKind kind, StepPlace place, int64_t bytes);
  void CollectiveEnded(TraceKind kind, StepPlace place);

 private:
  // Gives the part that is being left what has passed since it was entered.
  void Account();
  void Record(absl::Duration now);
  int64_t NowNanoseconds() const { return absl::ToInt64Nanoseconds(clock_->Now()); }

  const Clock* clock_;
  std::thread::id thread_;  // of the step
  bool running_ = false;
  StepMoment moment_;
  absl::Duration since_;
  int64_t under_way_ = 0;
  StepTimes times_;

  StepTrace* trace_ = nullptr;
  int64_t step_ = 0;               // of the trace
  std::vector<TraceEvent> begun_;  // collectives that are under way, where there is a trace
};

// The thread is in a part while this lives, and then back in the one before.
class StepSection {
 public:
  StepSection(StepTimeline* timeline, StepPart part, StepPlace place = {})
      : timeline_(timeline), before_(timeline->Enter(part, place)) {}
  ~StepSection() { timeline_->Enter(before_.part, before_.place); }
  StepSection(const StepSection&) = delete;
  StepSection& operator=(const StepSection&) = delete;

 private:
  StepTimeline* timeline_;
  StepMoment before_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STEP_TIMELINE_H_
