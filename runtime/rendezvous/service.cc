#include "runtime/rendezvous/service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"
#include "runtime/rendezvous/limits.h"

namespace rz {
namespace {

const char* const kShutDown = "the rendezvous is shutting down";

void LogOutcome(const Reply& reply) {
  if (reply.verdict.has_value()) {
    Log(LogLevel::kInfo, "rendezvous: verdict of epoch ", reply.verdict->epoch.value(), ": ",
        reply.verdict->message);
  } else if (!reply.status.ok()) {
    Log(LogLevel::kInfo, "rendezvous: refused: ", reply.status.ToString());
  } else if (reply.assignment.has_value()) {
    Log(LogLevel::kInfo, "rendezvous: rank ", reply.assignment->rank.value(), " of ",
        reply.assignment->addresses->size(), " joined epoch ", reply.assignment->epoch.value());
  }
}

}  // namespace

std::vector<std::function<void()>> RendezvousService::TakeCallbacks(Replies replies) {
  std::vector<std::function<void()>> callbacks;
  callbacks.reserve(replies.size());
  for (Reply& reply : replies) {
    auto entry = waiting_.extract(reply.ticket);
    if (entry.empty()) continue;
    callbacks.push_back([done = std::move(entry.mapped()), reply = std::move(reply)] {
      LogOutcome(reply);
      done(reply);
    });
  }
  return callbacks;
}

Ticket RendezvousService::Call(
    Done done, const std::function<Replies(Membership&, Ticket, absl::Duration)>& request) {
  std::vector<std::function<void()>> callbacks;
  Ticket ticket = 0;
  {
    MutexLock lock(&mutex_);
    ticket = next_ticket_++;
    waiting_[ticket] = std::move(done);
    Replies replies = shut_down_ ? Replies{{ticket, absl::UnavailableError(kShutDown)}}
                                 : request(membership_, ticket, clock_.Now());
    callbacks = TakeCallbacks(std::move(replies));
    changed_.NotifyAll();
  }
  for (const auto& callback : callbacks) callback();
  return ticket;
}

Ticket RendezvousService::Join(const JoinRequest& request, Done done) {
  Log(LogLevel::kInfo, "rendezvous: a worker from host ", request.host, " asks to join job '",
      request.job, "' of ", request.world_size, " ranks",
      request.wanted_rank.has_value() ? absl::StrCat(" as rank ", *request.wanted_rank) : "");
  return Call(std::move(done), [&](Membership& membership, Ticket ticket, absl::Duration now) {
    return membership.Join(request, ticket, now);
  });
}

Ticket RendezvousService::Watch(const MemberId& id, Done done) {
  return Call(std::move(done), [&](Membership& membership, Ticket ticket, absl::Duration now) {
    return membership.Watch(id, ticket, now);
  });
}

Ticket RendezvousService::Barrier(const BarrierRequest& request, Done done) {
  return Call(std::move(done), [&](Membership& membership, Ticket ticket, absl::Duration now) {
    return membership.Barrier(request, ticket, now);
  });
}

Ticket RendezvousService::ReportFailure(const FailureReport& report, Done done) {
  return Call(std::move(done), [&](Membership& membership, Ticket ticket, absl::Duration now) {
    return membership.ReportFailure(report, ticket, now);
  });
}

Ticket RendezvousService::Leave(const MemberId& id, Done done) {
  Log(LogLevel::kInfo, "rendezvous: rank ", id.rank.value(), " leaves job '", id.job, "'");
  return Call(std::move(done), [&](Membership& membership, Ticket ticket, absl::Duration now) {
    return membership.Leave(id, ticket, now);
  });
}

absl::StatusOr<std::shared_ptr<const Addresses>> RendezvousService::AddressesFor(
    const MemberId& id) const {
  MutexLock lock(&mutex_);
  if (shut_down_) return absl::UnavailableError(kShutDown);
  return membership_.AddressesFor(id);
}

absl::StatusOr<Gathering> RendezvousService::GatheringOf(const std::string& job) const {
  MutexLock lock(&mutex_);
  if (shut_down_) return absl::UnavailableError(kShutDown);
  return membership_.GatheringOf(job);
}

std::vector<Rank> RendezvousService::WaitUntilDone(const std::string& job, Epoch epoch, Rank self,
                                                   absl::Duration patience) {
  MutexLock lock(&mutex_);
  const bool has_ended = changed_.WaitFor(
      &mutex_, patience, [&] { return shut_down_ || !membership_.IsGoingOn(job, epoch); });
  if (!has_ended) return FindNotDone(job, epoch, self);
  changed_.WaitFor(&mutex_, limits::kLastWords,
                   [&] { return shut_down_ || FindNotDone(job, epoch, self).empty(); });
  return {};
}

std::vector<Rank> RendezvousService::NotDone(const std::string& job, Epoch epoch, Rank self) const {
  MutexLock lock(&mutex_);
  return FindNotDone(job, epoch, self);
}

std::vector<Rank> RendezvousService::FindNotDone(const std::string& job, Epoch epoch,
                                                 Rank self) const {
  std::vector<Rank> ranks = membership_.NotDone(job, epoch);
  std::erase(ranks, self);
  return ranks;
}

void RendezvousService::Cancel(Ticket ticket) {
  std::vector<std::function<void()>> callbacks;
  {
    MutexLock lock(&mutex_);
    callbacks = TakeCallbacks(membership_.Cancel(ticket, clock_.Now()));
    changed_.NotifyAll();
  }
  for (const auto& callback : callbacks) callback();
}

void RendezvousService::Expire() {
  std::vector<std::function<void()>> callbacks;
  {
    MutexLock lock(&mutex_);
    callbacks = TakeCallbacks(membership_.Expire(clock_.Now()));
    changed_.NotifyAll();
  }
  for (const auto& callback : callbacks) callback();
}

void RendezvousService::ExpireUntilShutdown() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!shut_down_ && clock_.Now() < membership_.NextDeadline()) {
        const absl::Duration deadline = membership_.NextDeadline();
        changed_.WaitFor(&mutex_, deadline - clock_.Now(),
                         [&] { return shut_down_ || membership_.NextDeadline() != deadline; });
      }
      if (shut_down_) return;
    }
    Expire();
  }
}

void RendezvousService::Shutdown() {
  std::vector<std::function<void()>> callbacks;
  {
    MutexLock lock(&mutex_);
    shut_down_ = true;
    Replies replies;
    for (const auto& [ticket, done] : waiting_) {
      replies.push_back({ticket, absl::UnavailableError(kShutDown)});
    }
    callbacks = TakeCallbacks(std::move(replies));
    changed_.NotifyAll();
  }
  for (const auto& callback : callbacks) callback();
}

}  // namespace rz
