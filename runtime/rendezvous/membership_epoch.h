// One epoch of one job: its ranks gather, run, and end, by success or by a verdict. Part of
// Membership; pure, no threads, time is an argument.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_EPOCH_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_EPOCH_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/rendezvous/membership_barriers.h"
#include "runtime/rendezvous/membership_types.h"

namespace rz {

// Gathering: the first Join fixes world size and configuration; ranks are given when the last one
// has come. Running: every rank holds a Watch open; one that breaks makes its rank suspect, and a
// suspicion that nobody resolves within limits::kSuspicionGrace becomes the verdict. Ended: every
// request has been answered, nothing may be called but the accessors.
class MembershipEpoch {
 public:
  // For the job of `first`, which is still to be given to Join.
  MembershipEpoch(Epoch epoch, const JoinRequest& first);

  // See Membership for the contracts and the codes.
  void Join(const JoinRequest& request, Ticket ticket, absl::Duration now, Replies* replies);
  void Watch(const MemberId& id, Ticket ticket, Replies* replies);
  void Barrier(const BarrierRequest& request, Ticket ticket, absl::Duration now, Replies* replies);
  void ReportFailure(const FailureReport& report, Ticket ticket, absl::Duration now,
                     Replies* replies);
  // Judges a launcher's word, for which CheckReport is OK, about a process that has ended. It
  // changes nothing where another launch holds the rank, where the world has no such rank, and
  // where the rank had left before it exited with status 0.
  void EndProcess(const FailureReport& report, Replies* replies);
  void Leave(const MemberId& id, Ticket ticket, Replies* replies);
  void Cancel(Ticket ticket, absl::Duration now, Replies* replies);
  void Expire(absl::Duration now, Replies* replies);
  absl::Duration NextDeadline() const;

  Epoch epoch() const { return epoch_; }
  bool ended() const { return state_ == State::kEnded; }
  // Ranks were given anew: launchers know them by other numbers (JoinRequest::launched_as).
  bool is_rebuilt() const { return is_rebuilt_; }
  // Of an epoch that ended by a failure.
  const std::optional<Verdict>& verdict() const { return verdict_; }
  // Processes that have joined, those that left included.
  size_t member_count() const { return newcomers_.size() + members_.size(); }

  int64_t world_size() const { return world_size_; }
  // Ascending; empty where all have come.
  std::vector<Rank> MissingRanks() const;
  // Of all processes that have asked to join and were not refused; without 0.
  const std::set<LaunchId>& launches() const { return launches_; }

  // By rank; null while gathering.
  const std::shared_ptr<const Addresses>& addresses() const { return addresses_; }

  // That `id` holds its rank in this epoch and has not left.
  //   FailedPrecondition  still gathering, or the rank has left
  //   InvalidArgument     no such rank
  //   Aborted             another process holds the rank
  absl::Status CheckMember(const MemberId& id) const;

  // Of an epoch that has run, ended or not: who held `rank` or holds it; whether that was `id`; and
  // which ranks have left, or were not heard of any more when it failed.
  bool has_run() const { return !members_.empty(); }
  const JoinRequest& RequestOf(Rank rank) const { return members_[rank.value()].request; }
  bool WasMember(const MemberId& id) const;
  void LeaveLate(Rank rank) { members_[rank.value()].left = true; }
  std::set<Rank> NotComing() const;
  void TellLate(Rank rank) { members_[rank.value()].told = true; }
  // Which ranks have not left; once it has failed, which of them are there and not told of it.
  std::vector<Rank> NotDone() const;
  bool Holds(Incarnation incarnation) const { return rank_of_.contains(incarnation); }

  // That `report` makes sense, whoever sends it.
  //   InvalidArgument  no such rank, or the reporter does not fit the kind
  //   otherwise        as CheckMember, of the reporter
  absl::Status CheckReport(const FailureReport& report) const;

 private:
  enum class State { kGathering, kRunning, kEnded };

  struct Newcomer {
    JoinRequest request;
    Ticket ticket = 0;
    uint64_t arrival = 0;
  };

  struct Member {
    JoinRequest request;
    std::optional<Ticket> watch = std::nullopt;
    bool has_watched = false;
    bool left = false;
    bool told = false;  // the verdict
  };

  struct Suspicion {
    absl::Duration deadline;
    Verdict verdict;
    bool cleared_by_watch = false;
  };

  absl::Status CheckNewcomer(const JoinRequest& request) const;
  // The request of the process that holds `rank` or waits for it; null: none.
  const JoinRequest* HolderOf(Rank rank) const;
  // The rank of the process that a launcher's report speaks of; none: it is not in this epoch.
  std::optional<Rank> RankOfProcess(const FailureReport& report) const;
  Assignment AssignmentOf(Rank rank) const;
  // Position of each wanted or given rank among those that have come, as if no more would come.
  std::map<Rank, Incarnation> GiveRanks() const;
  void StartRunning(absl::Duration now, Replies* replies);
  void TimeOutGathering(Replies* replies);
  void SuspectLostConnection(Rank rank, absl::Duration now);
  void SuspectUnwatched(absl::Duration now);
  void Fail(Verdict verdict, Replies* replies);

  const Epoch epoch_;
  const std::string job_;
  const int64_t world_size_;
  const uint64_t config_hash_;
  const bool is_rebuilt_;

  State state_ = State::kGathering;
  std::optional<Verdict> verdict_;

  std::map<Incarnation, Newcomer> newcomers_;
  uint64_t arrivals_ = 0;
  std::set<LaunchId> launches_;
  absl::Duration join_deadline_ = absl::InfiniteDuration();
  absl::Duration join_timeout_;  // what join_deadline_ was made of
  std::string last_refusal_;     // to explain a gathering that times out

  std::vector<Member> members_;  // by rank
  std::map<Incarnation, Rank> rank_of_;
  std::shared_ptr<const Addresses> addresses_;
  absl::Duration watch_due_ = absl::InfiniteDuration();
  std::vector<Suspicion> suspicions_;  // earliest first: all have the same grace
  std::set<Rank> lost_;                // whose connection was when the epoch failed
  MembershipBarriers barriers_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_EPOCH_H_
