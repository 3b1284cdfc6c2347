// Membership: the one judge of a job. Who is which rank, who has come, who has failed first:
// decided here once and told to all. A pure state machine: no threads, no RPC, and time is an
// argument, so that tests turn the clock themselves. RendezvousService gives it a lock and a clock,
// RpcHandler a wire format.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/rendezvous/membership_endings.h"
#include "runtime/rendezvous/membership_epoch.h"
#include "runtime/rendezvous/membership_rebuild.h"
#include "runtime/rendezvous/membership_types.h"

namespace rz {

// Keeps any number of jobs up to limits::kMaxJobs apart by their ids. A job id stands for one epoch
// at a time; when that has ended (all ranks have left, or it has failed) the next Join begins a new
// epoch, higher than any before. The verdict of the last ended epoch is remembered.
//
// Every request has a ticket and gets exactly one Reply with it: among those that its own call
// returns, or among those of a later call. `now` never goes backwards. Not thread-safe.
class Membership {
 public:
  explicit Membership(Epoch first_epoch = Epoch(1)) : next_epoch_(first_epoch) {}

  // Waits until all ranks have come, then gives this one its rank. Ranks not wanted by number go in
  // ascending order to the others by host, position on the host, arrival. The same incarnation may
  // ask again at any time and gets the same answer.
  //   InvalidArgument     world size 0 or above the limit, rank outside the world, incarnation 0
  //   FailedPrecondition  protocol, world size or configuration differ from the others' (the
  //                       message shows both), or this process has left
  //   AlreadyExists       another live process holds the rank, or all ranks are held
  //   DeadlineExceeded    the earliest timeout of those waiting passed: all get the missing ranks
  //   Unavailable         a rank failed before all had come (with verdict)
  //   ResourceExhausted   too many jobs or members
  //   Aborted             the same incarnation asked again: the newer request takes this one's
  //   place
  //
  // A survivor of the last epoch that ended, which has failed (JoinRequest::survivor_of), waits
  // until each of the others has come, is known to be gone, or has not come within the earliest
  // timeout of those waiting. Those that have come begin a new epoch, their ranks given anew in the
  // order of the old ones.
  //   FailedPrecondition  that epoch has not failed, or is not the last one, or went on without
  //                       this rank, or began no more than to gather; too few are left; the ranks
  //                       differ in configuration or in how many there are to be
  //   DeadlineExceeded    too few came in time
  //   Aborted             another process held the rank, or the same one asked again
  //   NotFound            no such job
  Replies Join(const JoinRequest& request, Ticket ticket, absl::Duration now);

  // Waits until the job has failed (the reply has the verdict) or this rank has left (it has none).
  // Cancelling it says that the connection to this rank broke.
  //   FailedPrecondition, InvalidArgument, Aborted   as MembershipEpoch::CheckMember
  //   NotFound            no such job (the rendezvous has been restarted, or it ended long ago)
  Replies Watch(const MemberId& id, Ticket ticket, absl::Duration now);

  // Waits until all participants have arrived. Codes as MembershipBarriers::Arrive and Watch;
  // Unavailable (with verdict) where the job has failed.
  Replies Barrier(const BarrierRequest& request, Ticket ticket, absl::Duration now);

  // Says that a rank has failed. The first word wins; a word about another rank is a suspicion that
  // becomes the verdict unless somebody who knows better speaks within limits::kSuspicionGrace. A
  // launcher's word is remembered: an epoch that needs the ended process fails as soon as another
  // process of the same launch asks to join it.
  //   InvalidArgument     rank outside the world, or the reporter does not fit the kind
  //   NotFound, FailedPrecondition, Aborted   as Watch, of a rank or of a launcher without a number
  Replies ReportFailure(const FailureReport& report, Ticket ticket, absl::Duration now);

  // This rank is done. OK also where it has left before, or the epoch has ended.
  Replies Leave(const MemberId& id, Ticket ticket, absl::Duration now);

  // The caller of `ticket` is gone. Its reply (Cancelled) is among those returned, unless it was
  // answered before. A Join is forgotten, a barrier's arrival taken back, a Watch suspected.
  Replies Cancel(Ticket ticket, absl::Duration now);

  // Answers what has passed its deadline. To be called when NextDeadline() has come.
  Replies Expire(absl::Duration now);
  absl::Duration NextDeadline() const;  // InfiniteDuration: nothing waits for time

  // The addresses of all ranks, for a member of a running epoch.
  //   NotFound, FailedPrecondition, InvalidArgument, Aborted   as Watch
  absl::StatusOr<std::shared_ptr<const Addresses>> AddressesFor(const MemberId& id) const;

  // Whether the epoch gathers or runs still; and which of its ranks need it to be served: those
  // that have not left, or once it has failed, that are there and have not been told.
  bool IsGoingOn(const std::string& job, Epoch epoch) const;
  std::vector<Rank> NotDone(const std::string& job, Epoch epoch) const;

  // Who is still to come, for those who wait.
  //   NotFound            no such job
  //   FailedPrecondition  nobody waits: all have come, or nobody has
  absl::StatusOr<Gathering> GatheringOf(const std::string& job) const;

  size_t job_count() const { return jobs_.size(); }
  size_t unanswered_count() const { return unanswered_.size(); }

 private:
  struct Job {
    std::unique_ptr<MembershipEpoch> current;  // null between epochs
    std::optional<Epoch> ended;                // the last one that ended, and how
    std::optional<Verdict> verdict;
    std::set<LaunchId> ended_launches;  // whose processes were part of it
    // Where it has failed: kept for its survivors, and these while they gather.
    std::unique_ptr<MembershipEpoch> failed;
    std::unique_ptr<MembershipRebuild> rebuild;
    // Processes of its launches that have ended, by their numbers there.
    std::set<std::pair<LaunchId, Rank>> ended_processes;
  };

  // The running or gathering epoch that `id` speaks of.
  absl::StatusOr<const Job*> FindJob(const std::string& job) const;
  absl::StatusOr<MembershipEpoch*> FindEpoch(const std::string& job, Epoch epoch) const;
  // Finds or makes the epoch that `request` may join.
  absl::StatusOr<MembershipEpoch*> EpochToJoin(const JoinRequest& request);
  bool EvictAnEndedJob();
  // Of those epochs that survivors may rebuild, keeps as many as there is room for.
  void ForgetOldFailures();

  Replies JoinSurvivor(const JoinRequest& request, Ticket ticket, absl::Duration now);
  absl::Status CheckSurvivor(const Job& job, const JoinRequest& request) const;
  // Once nobody is waited for, begins the epoch of the survivors.
  void StartRebuilt(Job& job, absl::Duration now, Replies* replies);
  static std::set<Rank> GoneRanks(const Job& job);
  // The rank in job.failed of a launcher's process; none: it held none.
  static std::optional<Rank> RankInFailed(const Job& job, const FailureReport& report);
  // The epoch a launcher's report speaks of; null while none has formed, or after its last.
  MembershipEpoch* EpochOfEnding(const FailureReport& report) const;
  Replies ReportEnding(const FailureReport& report, Ticket ticket, absl::Duration now);
  // A rank that leaves after its epoch has failed will not rebuild it.
  void NoteLateLeave(const MemberId& id, absl::Duration now, Replies* replies);
  // Remembers it for a rebuild, or tells the one that gathers.
  void NoteEndedProcess(const FailureReport& report, absl::Duration now, Replies* replies);
  // What a request to an epoch that has ended is told, where it is the last one.
  std::optional<Reply> ReplyOfEnded(const std::string& job, Epoch epoch, Ticket ticket) const;
  size_t MemberCount() const;

  // Keeps the books after `replies` came of a call about `job`: unanswered tickets, ended epochs.
  void Settle(const std::string& job, const Replies& replies);
  Replies Finish(const std::string& job, Ticket ticket, Replies replies);

  Epoch next_epoch_;
  std::map<std::string, Job> jobs_;
  MembershipEndings endings_;
  std::map<Ticket, std::string> unanswered_;  // to their jobs
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_H_
