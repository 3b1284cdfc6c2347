// The barriers of one epoch, by id. Part of Membership; pure, no threads, time is an argument.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_BARRIERS_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_BARRIERS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/rendezvous/membership_types.h"

namespace rz {

// A barrier opens with its first arrival, which fixes participants, counter and deadline, and
// closes when all participants have arrived. Any disagreement, a participant that has left, and the
// deadline fail it for everybody who waits and for everybody who comes later: a barrier that failed
// for some must not succeed for others.
class MembershipBarriers {
 public:
  explicit MembershipBarriers(int world_size) : world_size_(world_size) {}

  // The answer is
  //   OK                  all have arrived, or this is the retry of a pass that was completed
  //   InvalidArgument     participants outside the world or without the caller (refused alone);
  //                       other participants or another counter than the others' (fails all)
  //   FailedPrecondition  a participant has left
  //   DeadlineExceeded    the deadline passed; the message lists the missing ranks
  //   ResourceExhausted   too many barrier ids
  //   Aborted             this rank asked again: the newer request takes the place of this one
  void Arrive(const BarrierRequest& request, Ticket ticket, absl::Duration now, Replies* replies);

  // Rank `rank` is done: barriers that wait for it fail.
  void Leave(Rank rank, Replies* replies);

  // The caller of `ticket` waits no longer: its arrival is taken back. No reply.
  void Cancel(Ticket ticket);

  // Answers everybody with `status` and `verdict`.
  void FailAll(const absl::Status& status, const std::optional<Verdict>& verdict, Replies* replies);

  void Expire(absl::Duration now, Replies* replies);
  absl::Duration NextDeadline() const;

 private:
  struct Barrier {
    int64_t completed = 0;  // passes
    absl::Status failure;   // sticky
    // Of the pass that is open: nobody has arrived where `arrived` is empty.
    std::vector<Rank> participants;  // empty: all
    std::map<Rank, Ticket> arrived;
    absl::Duration deadline;
  };

  absl::Status CheckParticipants(const BarrierRequest& request) const;
  // Why `request` does not fit what the others said; OK where it does.
  absl::Status Disagreement(const Barrier& barrier, const BarrierRequest& request) const;
  std::vector<Rank> Missing(const Barrier& barrier) const;
  void Answer(Barrier& barrier, const absl::Status& status, Replies* replies);

  const int world_size_;
  std::map<std::string, Barrier> barriers_;
  std::set<Rank> left_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_BARRIERS_H_
