// RendezvousService: Membership behind a lock, with a clock and callbacks. The RPC handler and, in
// the same process, a launcher call it; it knows neither messages nor sockets.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_SERVICE_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_SERVICE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "runtime/base/clock.h"
#include "runtime/base/sync.h"
#include "runtime/rendezvous/membership.h"
#include "runtime/rendezvous/membership_types.h"

namespace rz {

// Thread-safe. Each request's `done` is called exactly once, without the lock, from whatever thread
// brought the answer (also from within the request's own call), and must not block. The requests
// and their codes are Membership's; beyond those, Unavailable after Shutdown.
class RendezvousService {
 public:
  using Done = std::function<void(const Reply&)>;

  explicit RendezvousService(const Clock* clock, Epoch first_epoch = Epoch(1))
      : clock_(*clock), membership_(first_epoch) {}

  Ticket Join(const JoinRequest& request, Done done);
  Ticket Watch(const MemberId& id, Done done);
  Ticket Barrier(const BarrierRequest& request, Done done);
  Ticket ReportFailure(const FailureReport& report, Done done);
  Ticket Leave(const MemberId& id, Done done);
  absl::StatusOr<std::shared_ptr<const Addresses>> AddressesFor(const MemberId& id) const;

  absl::StatusOr<Gathering> GatheringOf(const std::string& job) const;

  // Waits until that epoch of that job has ended, or Shutdown, and where it has failed until all
  // but `self` have been told; at most `patience`, and limits::kLastWords for the latter. Where it
  // has not ended: who has not left.
  std::vector<Rank> WaitUntilDone(const std::string& job, Epoch epoch, Rank self,
                                  absl::Duration patience);
  // As Membership::NotDone, without `self`.
  std::vector<Rank> NotDone(const std::string& job, Epoch epoch, Rank self) const;

  // The caller of `ticket` is gone; its `done` is told Cancelled unless it was called before.
  void Cancel(Ticket ticket);

  // Answers what has passed its deadline.
  void Expire();

  // Calls Expire whenever it is due, until Shutdown; for a thread of the server. Sleeps by the
  // steady clock, so it is of use only where that is this service's.
  void ExpireUntilShutdown();

  // Answers everything with Unavailable, now and from now on.
  void Shutdown();

 private:
  std::vector<Rank> FindNotDone(const std::string& job, Epoch epoch, Rank self) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs `request` on the membership under the lock and delivers the replies after it.
  Ticket Call(Done done,
              const std::function<Replies(Membership&, Ticket, absl::Duration)>& request);
  // Takes the callbacks of `replies` out of the books; call them without the lock.
  std::vector<std::function<void()>> TakeCallbacks(Replies replies)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar changed_;  // notified whenever membership_ or shut_down_ may have
  Membership membership_ ABSL_GUARDED_BY(mutex_);
  std::map<Ticket, Done> waiting_ ABSL_GUARDED_BY(mutex_);
  Ticket next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_SERVICE_H_
