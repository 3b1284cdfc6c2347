// The survivors of an epoch that has failed, on their way to a new one. Part of Membership; pure,
// no threads, time is an argument.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_REBUILD_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_REBUILD_H_

#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/rendezvous/membership_types.h"

namespace rz {

// Each rank of the failed epoch comes, or is known to be gone, or is waited for until the earliest
// deadline of those that have come. Then those that have come are the survivors, if they are not
// fewer than they ask for. One that was thought gone and comes is not.
class MembershipRebuild {
 public:
  struct Survivor {
    JoinRequest request;
    Ticket ticket = 0;
  };

  // `gone`: ranks that are not waited for.
  MembershipRebuild(Epoch failed, int64_t world_size, std::set<Rank> gone)
      : failed_(failed), world_size_(world_size), gone_(std::move(gone)) {}

  // `request` is of a process that held the rank it says in the failed epoch.
  //   FailedPrecondition  it agrees with those that have come neither in configuration nor in how
  //                       many ranks there have to be at least
  //   Aborted             the same rank asked again: the newer request takes this one's place
  void Join(const JoinRequest& request, Ticket ticket, absl::Duration now, Replies* replies);

  // The caller of `ticket` waits no longer. No reply.
  void Cancel(Ticket ticket);

  // The process of `rank` has ended.
  void End(Rank rank, Replies* replies);

  bool empty() const { return survivors_.empty(); }
  // Nobody is waited for any more.
  bool IsComplete(absl::Duration now) const;
  absl::Duration NextDeadline() const { return deadline_; }

  // Once complete: the survivors, in the order of their ranks; none where they are too few, who are
  // all answered.
  //   FailedPrecondition  the others are gone
  //   DeadlineExceeded    they did not come in time
  std::vector<Survivor> Finish(Replies* replies);

  // Those that have come and those that are waited for; the latter, ascending.
  int64_t expected() const { return world_size_ - static_cast<int64_t>(gone_.size()); }
  std::vector<Rank> MissingRanks() const;

 private:
  absl::Status CheckAgreement(const JoinRequest& request) const;

  const Epoch failed_;
  const int64_t world_size_;
  std::set<Rank> gone_;
  std::map<Rank, Survivor> survivors_;
  absl::Duration deadline_ = absl::InfiniteDuration();
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_REBUILD_H_
