// Brings the clocks of all ranks together, as far as can be known from barriers.
//
// Rank r enters barrier k at b_r[k] and has left it at a_r[k], by its own clock. Nobody leaves a
// barrier before everybody has entered it; so what r's clock is ahead of rank 0's is
//
//     at most   a_r[k] - b_0[k]      r left after 0 had entered
//     at least  b_r[k] - a_0[k]      0 left after r had entered
//
// for every k, and the best of all barriers bound it. The middle of the two bounds is taken, and
// half their distance is the error; where they allow 0, 0 is taken, for ranks of one host have one
// clock. Source of the idea: Cristian, "Probabilistic clock synchronization", 1989.
#ifndef RINGZERO_TOOLS_TRAIN_CLOCK_ALIGNMENT_H_
#define RINGZERO_TOOLS_TRAIN_CLOCK_ALIGNMENT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "runtime/base/clock.h"

namespace rz {

struct ClockAlignment {
  // A moment of the common time, which begins when rank 0 left the last barrier, in nanoseconds.
  int64_t ToCommon(int64_t own_ns) const { return own_ns - ahead_ns - zero_ns; }

  int64_t ahead_ns = 0;  // what this rank's clock is ahead of rank 0's
  int64_t error_ns = 0;  // at most so much more or less
  int64_t zero_ns = 0;   // of the common time, by rank 0's clock
};

// When a barrier was entered and left, in nanoseconds.
struct BarrierTimes {
  int64_t entered_ns = 0;
  int64_t left_ns = 0;
};

// From the same barriers, at least one, as `own` and rank 0 saw them.
ClockAlignment Align(absl::Span<const BarrierTimes> own, absl::Span<const BarrierTimes> first);

// A collective call of some barriers; fails with the communicator's first cause.
absl::StatusOr<ClockAlignment> AlignClocks(Communicator* communicator, const Clock& clock);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_CLOCK_ALIGNMENT_H_
