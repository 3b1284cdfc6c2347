#include "runtime/rendezvous/membership_barriers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/membership_text.h"

namespace rz {
namespace {

std::string Name(const std::string& id) { return absl::StrCat("barrier '", id, "'"); }

std::string FormatParticipants(const std::vector<Rank>& participants) {
  return participants.empty() ? "all ranks" : FormatRanks(participants);
}

bool Expects(const std::vector<Rank>& participants, Rank rank) {
  return participants.empty() || std::binary_search(participants.begin(), participants.end(), rank);
}

}  // namespace

absl::Status MembershipBarriers::CheckParticipants(const BarrierRequest& request) const {
  const std::vector<Rank>& ranks = request.participants;
  if (ranks.empty()) return absl::OkStatus();
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].value() < 0 || ranks[i].value() >= world_size_) {
      return absl::InvalidArgumentError(absl::StrCat(Name(request.id), ": participant ",
                                                     ranks[i].value(), " is outside the world of ",
                                                     world_size_));
    }
    if (i > 0 && ranks[i] <= ranks[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat(Name(request.id), ": participants must be ascending without repetition"));
    }
  }
  if (!std::binary_search(ranks.begin(), ranks.end(), request.member.rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(request.id), ": rank ", request.member.rank.value(),
                     " is not among its participants, ", FormatRanks(ranks)));
  }
  return absl::OkStatus();
}

std::vector<Rank> MembershipBarriers::Missing(const Barrier& barrier) const {
  std::vector<Rank> missing;
  for (int r = 0; r < world_size_; ++r) {
    if (Expects(barrier.participants, Rank(r)) && !barrier.arrived.contains(Rank(r))) {
      missing.push_back(Rank(r));
    }
  }
  return missing;
}

absl::Status MembershipBarriers::Disagreement(const Barrier& barrier,
                                              const BarrierRequest& request) const {
  const auto who = absl::StrCat(Name(request.id), ": rank ", request.member.rank.value());
  if (request.counter != barrier.completed) {
    return absl::InvalidArgumentError(absl::StrCat(who, " has passed it ", request.counter,
                                                   " times, the others ", barrier.completed,
                                                   " times: some rank skipped or repeated it"));
  }
  if (!barrier.arrived.empty() && barrier.participants != request.participants) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, " wants to meet ", FormatParticipants(request.participants), ", rank ",
                     barrier.arrived.begin()->first.value(), " wants to meet ",
                     FormatParticipants(barrier.participants)));
  }
  for (Rank gone : left_) {
    if (Expects(request.participants, gone)) {
      return absl::FailedPreconditionError(
          absl::StrCat(Name(request.id), ": rank ", gone.value(), " has left the job"));
    }
  }
  return absl::OkStatus();
}

void MembershipBarriers::Answer(Barrier& barrier, const absl::Status& status, Replies* replies) {
  for (const auto& [rank, ticket] : barrier.arrived) replies->push_back({ticket, status});
  barrier.arrived.clear();
}

void MembershipBarriers::Arrive(const BarrierRequest& request, Ticket ticket, absl::Duration now,
                                Replies* replies) {
  if (const absl::Status status = CheckParticipants(request); !status.ok()) {
    replies->push_back({ticket, status});
    return;
  }
  if (!barriers_.contains(request.id) && barriers_.size() >= limits::kMaxBarrierIds) {
    replies->push_back({ticket, absl::ResourceExhaustedError(
                                    absl::StrCat("more than ", limits::kMaxBarrierIds,
                                                 " barrier ids in one epoch: use an id again"))});
    return;
  }
  Barrier& barrier = barriers_[request.id];
  if (!barrier.failure.ok()) {
    replies->push_back({ticket, barrier.failure});
    return;
  }
  if (request.counter + 1 == barrier.completed) {  // the answer was lost on its way
    replies->push_back({ticket, absl::OkStatus()});
    return;
  }
  barrier.failure = Disagreement(barrier, request);
  if (!barrier.failure.ok()) {
    Answer(barrier, barrier.failure, replies);
    replies->push_back({ticket, barrier.failure});
    return;
  }
  if (barrier.arrived.empty()) {
    barrier.participants = request.participants;
    barrier.deadline = now + request.timeout;
  }
  const auto [arrival, is_new] = barrier.arrived.try_emplace(request.member.rank, ticket);
  if (!is_new) {
    replies->push_back({arrival->second, absl::AbortedError("the same rank asked again")});
    arrival->second = ticket;
  }
  const size_t expected = barrier.participants.empty() ? world_size_ : barrier.participants.size();
  if (barrier.arrived.size() < expected) return;
  ++barrier.completed;
  Answer(barrier, absl::OkStatus(), replies);
}

void MembershipBarriers::Leave(Rank rank, Replies* replies) {
  left_.insert(rank);
  for (auto& [id, barrier] : barriers_) {
    if (barrier.arrived.empty() || !Expects(barrier.participants, rank)) continue;
    barrier.failure = absl::FailedPreconditionError(
        absl::StrCat(Name(id), ": rank ", rank.value(), " has left the job"));
    Answer(barrier, barrier.failure, replies);
  }
}

void MembershipBarriers::Cancel(Ticket ticket) {
  for (auto& [id, barrier] : barriers_) {
    std::erase_if(barrier.arrived, [ticket](const auto& entry) { return entry.second == ticket; });
  }
}

void MembershipBarriers::FailAll(const absl::Status& status, const std::optional<Verdict>& verdict,
                                 Replies* replies) {
  for (auto& [id, barrier] : barriers_) {
    barrier.failure = status;
    for (const auto& [rank, ticket] : barrier.arrived) {
      replies->push_back({.ticket = ticket, .status = status, .verdict = verdict});
    }
    barrier.arrived.clear();
  }
}

void MembershipBarriers::Expire(absl::Duration now, Replies* replies) {
  for (auto& [id, barrier] : barriers_) {
    if (barrier.arrived.empty() || now < barrier.deadline) continue;
    barrier.failure = absl::DeadlineExceededError(
        absl::StrCat(Name(id), " timed out with missing ", FormatRanks(Missing(barrier))));
    Answer(barrier, barrier.failure, replies);
  }
}

absl::Duration MembershipBarriers::NextDeadline() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [id, barrier] : barriers_) {
    if (!barrier.arrived.empty()) next = std::min(next, barrier.deadline);
  }
  return next;
}

}  // namespace rz
