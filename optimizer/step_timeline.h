// StepTimeline: where the wall time of a step goes, on one rank.
//
// At every moment of a step the rank's thread is in one part: forward or backward, which the
// model's program enters; communication, while the thread waits for collectives or moves them, and
// the optimizer's own computing, which the optimizer enters; other is all that nobody claims. So
// the parts add up to the step's wall time exactly. Communication that stands among the parts is
// what nothing hides ("exposed"); hidden is the time in which the thread was in another part while
// at least one collective was under way, from its start until it was seen to be done.
//
// The clock is read where the thread changes from one part to another, and nowhere else.
//
// Threads: the optimizer's. Allocates nothing.
#ifndef RINGZERO_OPTIMIZER_STEP_TIMELINE_H_
#define RINGZERO_OPTIMIZER_STEP_TIMELINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string_view>

#include "absl/time/time.h"
#include "runtime/base/clock.h"

namespace rz {

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

class StepTimeline {
 public:
  // The clock outlives the timeline.
  explicit StepTimeline(const Clock* clock) : clock_(clock) {}

  // Begins a step, in StepPart::kOther, unless one has begun.
  void Begin();

  // Ends the step. Requires that one has begun.
  StepTimes End();

  // The thread is in `part` from here on. Returns the part it was in. Between steps nothing is
  // measured.
  StepPart Enter(StepPart part);

  // A collective is under way, or is so no more, from here on. Within kCommunication.
  void CollectiveBegan() { ++under_way_; }
  void CollectiveEnded() { --under_way_; }

 private:
  // Gives the part that is being left what has passed since it was entered.
  void Account();

  const Clock* clock_;
  bool running_ = false;
  StepPart part_ = StepPart::kOther;
  absl::Duration since_;
  int64_t under_way_ = 0;
  StepTimes times_;
};

// The thread is in a part while this lives, and then back in the one before.
class StepSection {
 public:
  StepSection(StepTimeline* timeline, StepPart part)
      : timeline_(timeline), before_(timeline->Enter(part)) {}
  ~StepSection() { timeline_->Enter(before_); }
  StepSection(const StepSection&) = delete;
  StepSection& operator=(const StepSection&) = delete;

 private:
  StepTimeline* timeline_;
  StepPart before_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STEP_TIMELINE_H_
