#include "runtime/rendezvous/membership.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/rendezvous/limits.h"

namespace rz {
namespace {

// What can be judged without knowing the job.
absl::Status CheckJoin(const JoinRequest& request) {
  if (request.protocol_major != limits::kProtocolMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat("this rendezvous speaks protocol ", limits::kProtocolMajor, ".",
                     limits::kProtocolMinor, ", the worker ", request.protocol_major, ".",
                     request.protocol_minor, ": use one release for both"));
  }
  if (request.world_size < 1 || request.world_size > limits::kMaxWorldSize) {
    return absl::InvalidArgumentError(absl::StrCat("world size ", request.world_size,
                                                   " is not within 1 to ", limits::kMaxWorldSize));
  }
  if (request.wanted_rank.has_value() &&
      (*request.wanted_rank < 0 || *request.wanted_rank >= request.world_size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", *request.wanted_rank, " is outside the world of ", request.world_size));
  }
  if (request.incarnation == Incarnation(0)) {
    return absl::InvalidArgumentError("incarnation 0 names no process");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const Membership::Job*> Membership::FindJob(const std::string& job) const {
  const auto entry = jobs_.find(job);
  if (entry == jobs_.end()) {
    return absl::NotFoundError(absl::StrCat("no job '", job,
                                            "' here: nobody has joined it, or the rendezvous has "
                                            "been restarted"));
  }
  return &entry->second;
}

absl::StatusOr<MembershipEpoch*> Membership::FindEpoch(const std::string& job, Epoch epoch) const {
  RZ_ASSIGN_OR_RETURN(const Job* const found, FindJob(job));
  if (found->current == nullptr || found->current->epoch() != epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", epoch.value(), " of job '", job, "' is over; ",
                     found->current == nullptr
                         ? std::string("nobody has joined the job again")
                         : absl::StrCat("the job is in epoch ", found->current->epoch().value())));
  }
  return found->current.get();
}

size_t Membership::MemberCount() const {
  size_t count = 0;
  for (const auto& [id, job] : jobs_) {
    if (job.current != nullptr) count += job.current->member_count();
  }
  return count;
}

bool Membership::EvictAnEndedJob() {
  auto oldest = jobs_.end();
  for (auto entry = jobs_.begin(); entry != jobs_.end(); ++entry) {
    if (entry->second.current != nullptr || entry->second.rebuild != nullptr) continue;
    if (oldest == jobs_.end() || entry->second.ended < oldest->second.ended) oldest = entry;
  }
  if (oldest == jobs_.end()) return false;
  jobs_.erase(oldest);
  return true;
}

absl::StatusOr<MembershipEpoch*> Membership::EpochToJoin(const JoinRequest& request) {
  RZ_RETURN_IF_ERROR(CheckJoin(request));
  if (MemberCount() >= limits::kMaxMembers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this rendezvous holds ", limits::kMaxMembers, " members already"));
  }
  if (!jobs_.contains(request.job) && jobs_.size() >= limits::kMaxJobs && !EvictAnEndedJob()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this rendezvous holds ", limits::kMaxJobs, " jobs already"));
  }
  Job& job = jobs_[request.job];
  if (job.rebuild != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("job '", request.job, "' is being rebuilt by those that are left of epoch ",
                     job.failed->epoch().value(), ": join it as one of them, or later"));
  }
  if (job.current == nullptr) {
    job.failed.reset();
    job.ended_processes.clear();
    job.current = std::make_unique<MembershipEpoch>(next_epoch_, request);
    next_epoch_ = Epoch(next_epoch_.value() + 1);
  }
  return job.current.get();
}

std::optional<Reply> Membership::ReplyOfEnded(const std::string& job, Epoch epoch,
                                              Ticket ticket) const {
  const auto entry = jobs_.find(job);
  if (entry == jobs_.end() || entry->second.ended != epoch) return std::nullopt;
  return Reply{.ticket = ticket, .status = absl::OkStatus(), .verdict = entry->second.verdict};
}

void Membership::Settle(const std::string& job, const Replies& replies) {
  for (const Reply& reply : replies) unanswered_.erase(reply.ticket);
  const auto entry = jobs_.find(job);
  if (entry == jobs_.end() || entry->second.current == nullptr) return;
  if (!entry->second.current->ended()) return;
  entry->second.ended = entry->second.current->epoch();
  entry->second.verdict = entry->second.current->verdict();
  entry->second.ended_launches = entry->second.current->launches();
  const bool may_be_rebuilt = entry->second.verdict.has_value() && entry->second.current->has_run();
  if (may_be_rebuilt) entry->second.failed = std::move(entry->second.current);
  entry->second.current.reset();
  if (may_be_rebuilt) ForgetOldFailures();
}

void Membership::ForgetOldFailures() {
  size_t members = 0;
  for (const auto& [id, job] : jobs_) {
    if (job.failed != nullptr) members += job.failed->member_count();
  }
  while (members > limits::kMaxMembers) {
    Job* oldest = nullptr;
    for (auto& [id, job] : jobs_) {
      if (job.failed == nullptr || job.rebuild != nullptr) continue;
      if (oldest == nullptr || job.failed->epoch() < oldest->failed->epoch()) oldest = &job;
    }
    if (oldest == nullptr) return;
    members -= oldest->failed->member_count();
    oldest->failed.reset();
  }
}

Replies Membership::Finish(const std::string& job, Ticket ticket, Replies replies) {
  unanswered_[ticket] = job;
  Settle(job, replies);
  return replies;
}

Replies Membership::Join(const JoinRequest& request, Ticket ticket, absl::Duration now) {
  if (request.survivor_of.has_value()) return JoinSurvivor(request, ticket, now);
  absl::StatusOr<MembershipEpoch*> epoch = EpochToJoin(request);
  if (!epoch.ok()) return {{ticket, epoch.status()}};
  Replies replies;
  (*epoch)->Join(request, ticket, now, &replies);
  const FailureReport* const ending = endings_.Find(request.job, request.launch);
  if (ending != nullptr && (*epoch)->launches().contains(request.launch)) {
    (*epoch)->EndProcess(*ending, &replies);
  }
  return Finish(request.job, ticket, std::move(replies));
}

Replies Membership::Watch(const MemberId& id, Ticket ticket, absl::Duration now) {
  if (std::optional<Reply> reply = ReplyOfEnded(id.job, id.epoch, ticket)) {
    MembershipEpoch* const failed = jobs_.at(id.job).failed.get();
    if (failed != nullptr && failed->WasMember(id)) failed->TellLate(id.rank);
    return {*reply};
  }
  absl::StatusOr<MembershipEpoch*> epoch = FindEpoch(id.job, id.epoch);
  if (!epoch.ok()) return {{ticket, epoch.status()}};
  Replies replies;
  (*epoch)->Watch(id, ticket, &replies);
  return Finish(id.job, ticket, std::move(replies));
}

Replies Membership::Barrier(const BarrierRequest& request, Ticket ticket, absl::Duration now) {
  const MemberId& id = request.member;
  if (std::optional<Reply> reply = ReplyOfEnded(id.job, id.epoch, ticket);
      reply.has_value() && reply->verdict.has_value()) {
    reply->status = reply->verdict->ToStatus();
    return {*reply};
  }
  absl::StatusOr<MembershipEpoch*> epoch = FindEpoch(id.job, id.epoch);
  if (!epoch.ok()) return {{ticket, epoch.status()}};
  Replies replies;
  (*epoch)->Barrier(request, ticket, now, &replies);
  return Finish(id.job, ticket, std::move(replies));
}

MembershipEpoch* Membership::EpochOfEnding(const FailureReport& report) const {
  const auto entry = jobs_.find(report.job);
  if (entry == jobs_.end() || entry->second.current == nullptr) return nullptr;
  MembershipEpoch* const current = entry->second.current.get();
  // A launch that was part of the epoch before, and is not yet part of this one, speaks of that.
  const bool of_the_last = report.launch != LaunchId(0) &&
                           !current->launches().contains(report.launch) &&
                           entry->second.ended_launches.contains(report.launch);
  return of_the_last ? nullptr : current;
}

Replies Membership::ReportEnding(const FailureReport& report, Ticket ticket, absl::Duration now) {
  endings_.Remember(report);
  const auto entry = jobs_.find(report.job);
  if (entry == jobs_.end() && report.launch == LaunchId(0)) {
    return {{ticket, FindJob(report.job).status()}};
  }
  Replies replies;
  NoteEndedProcess(report, now, &replies);
  Reply reply{.ticket = ticket, .status = absl::OkStatus()};
  if (MembershipEpoch* const epoch = EpochOfEnding(report); epoch != nullptr) {
    reply.status = epoch->CheckReport(report);
    if (reply.status.ok()) epoch->EndProcess(report, &replies);
    reply.verdict = epoch->verdict();
  } else if (entry != jobs_.end() && (report.launch == LaunchId(0) ||
                                      entry->second.ended_launches.contains(report.launch))) {
    reply.verdict = entry->second.verdict;
  }
  replies.push_back(std::move(reply));
  return Finish(report.job, ticket, std::move(replies));
}

Replies Membership::ReportFailure(const FailureReport& report, Ticket ticket, absl::Duration now) {
  if (report.OfLauncher() && !report.epoch.has_value()) return ReportEnding(report, ticket, now);
  if (report.epoch.has_value()) {
    if (std::optional<Reply> reply = ReplyOfEnded(report.job, *report.epoch, ticket)) {
      return {*reply};
    }
  }
  absl::StatusOr<MembershipEpoch*> epoch = FindEpoch(report.job, report.epoch.value_or(Epoch(0)));
  if (!epoch.ok()) return {{ticket, epoch.status()}};
  Replies replies;
  (*epoch)->ReportFailure(report, ticket, now, &replies);
  return Finish(report.job, ticket, std::move(replies));
}

Replies Membership::Leave(const MemberId& id, Ticket ticket, absl::Duration now) {
  if (std::optional<Reply> reply = ReplyOfEnded(id.job, id.epoch, ticket)) {
    Replies replies = {*reply};
    NoteLateLeave(id, now, &replies);
    return Finish(id.job, ticket, std::move(replies));
  }
  absl::StatusOr<MembershipEpoch*> epoch = FindEpoch(id.job, id.epoch);
  if (!epoch.ok()) return {{ticket, epoch.status()}};
  Replies replies;
  (*epoch)->Leave(id, ticket, &replies);
  return Finish(id.job, ticket, std::move(replies));
}

Replies Membership::Cancel(Ticket ticket, absl::Duration now) {
  const auto entry = unanswered_.find(ticket);
  if (entry == unanswered_.end()) return {};
  const std::string job = entry->second;
  Replies replies = {{ticket, absl::CancelledError("the caller is gone")}};
  Job& found = jobs_.at(job);
  if (found.rebuild != nullptr) {
    found.rebuild->Cancel(ticket);
    StartRebuilt(found, now, &replies);
  } else {
    found.current->Cancel(ticket, now, &replies);
  }
  Settle(job, replies);
  return replies;
}

Replies Membership::Expire(absl::Duration now) {
  Replies all;
  for (auto& [id, job] : jobs_) {
    Replies replies;
    if (job.rebuild != nullptr && now >= job.rebuild->NextDeadline()) {
      StartRebuilt(job, now, &replies);
    } else if (job.current != nullptr && now >= job.current->NextDeadline()) {
      job.current->Expire(now, &replies);
    } else {
      continue;
    }
    Settle(id, replies);
    std::move(replies.begin(), replies.end(), std::back_inserter(all));
  }
  return all;
}

absl::Duration Membership::NextDeadline() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [id, job] : jobs_) {
    if (job.current != nullptr) next = std::min(next, job.current->NextDeadline());
    if (job.rebuild != nullptr) next = std::min(next, job.rebuild->NextDeadline());
  }
  return next;
}

absl::StatusOr<std::shared_ptr<const Addresses>> Membership::AddressesFor(
    const MemberId& id) const {
  RZ_ASSIGN_OR_RETURN(const MembershipEpoch* const epoch, FindEpoch(id.job, id.epoch));
  RZ_RETURN_IF_ERROR(epoch->CheckMember(id));
  return epoch->addresses();
}

bool Membership::IsGoingOn(const std::string& job, Epoch epoch) const {
  return FindEpoch(job, epoch).ok();
}

std::vector<Rank> Membership::NotDone(const std::string& job, Epoch epoch) const {
  const auto entry = jobs_.find(job);
  if (entry == jobs_.end()) return {};
  for (const auto* found : {entry->second.current.get(), entry->second.failed.get()}) {
    if (found != nullptr && found->epoch() == epoch) return found->NotDone();
  }
  return {};
}

absl::StatusOr<Gathering> Membership::GatheringOf(const std::string& job) const {
  RZ_ASSIGN_OR_RETURN(const Job* const found, FindJob(job));
  Gathering gathering;
  if (found->current != nullptr) {
    gathering = {found->current->world_size(), found->current->MissingRanks()};
  } else if (found->rebuild != nullptr) {
    gathering = {found->rebuild->expected(), found->rebuild->MissingRanks()};
  }
  if (gathering.missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("nobody waits to join job '", job, "'"));
  }
  return gathering;
}

}  // namespace rz
