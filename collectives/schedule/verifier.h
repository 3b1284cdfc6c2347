// Proves that the schedules of all ranks together are the collective they claim to be, by running
// them on symbols instead of numbers.
//
// What is proved, for any length of the blocks:
//   - every send has its receive, of the same blocks, format and length, in the same order; nobody
//     waits for ever even when a send completes only with its receive (Sends::kRendezvous; since
//     matching is in order, eager sends give the same, which can be had proved too);
//   - nothing is read before it was written, and no transfer of a round writes what another one of
//     that round reads or writes; each step gets the block and the format it expects;
//   - runs are single stretches of memory that the schedule's flags allow;
//   - what the goal asks for stands in the outputs: each reduced block holds every rank's input
//     exactly once, multiplied once by a factor of premul_sum, in the order claimed, rounded and
//     finished as often as claimed;
//   - nothing is written outside the scratch slots declared and the outputs of the goal.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_VERIFIER_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_VERIFIER_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/schedule/claim.h"
#include "collectives/schedule/schedule.h"

namespace rz {

// schedules[r] is rank r's.
//   FailedPrecondition  something is not as claimed; the message says rank, round, step, what was
//                       expected and what was found
absl::Status VerifySchedules(absl::Span<const Schedule> schedules, const Claim& claim);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_VERIFIER_H_
