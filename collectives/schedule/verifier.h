// Proves that the schedules of all ranks together are the collective they claim to be, by running
// them on symbols instead of numbers.
//
// What is proved, for any length of the blocks and for eager and rendezvous sends alike:
//   - every send has its receive, of the same block and format, in the same order; nobody waits for
//     ever even when a send completes only with its receive;
//   - nothing is read before it was written, and no transfer of a round writes what another one of
//     that round reads or writes; each step gets the block and the format it expects;
//   - what the goal asks for stands in the outputs: each reduced block holds every rank's input
//     exactly once, in the canonical order, rounded and finished as often as declared;
//   - nothing is written outside the scratch slots declared and the outputs of the goal.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_VERIFIER_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_VERIFIER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/schedule/schedule.h"

namespace rz {

enum class Goal : uint8_t { kReduceScatter, kAllGather, kAllReduce, kBroadcast, kBarrier };

struct Claim {
  Goal goal = Goal::kReduceScatter;
  int32_t root = 0;       // of a broadcast
  bool in_place = false;  // NCCL's forms; a broadcast is always in place at its root

  // Reductions: kAccumulator claims one rounding, kWire one at every addition. In a world of one
  // there is none.
  Format partials = Format::kAccumulator;
};

// schedules[r] is rank r's.
//   FailedPrecondition  something is not as claimed; the message says rank, round, step, what was
//                       expected and what was found
absl::Status VerifySchedules(absl::Span<const Schedule> schedules, const Claim& claim);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_VERIFIER_H_
