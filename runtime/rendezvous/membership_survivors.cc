// How the survivors of an epoch come to a new one:
//   1. The epoch fails; it is kept, and with it which launchers' processes have ended since.
//   2. The first survivor that asks begins a MembershipRebuild; each that comes, each process that
//      ends and the deadline may complete it.
//   3. Those that have come join a new MembershipEpoch, all at once, so that it runs from then on.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/membership.h"

namespace rz {

absl::Status Membership::CheckSurvivor(const Job& job, const JoinRequest& request) const {
  const MemberId& id = *request.survivor_of;
  if (request.incarnation == Incarnation(0)) {
    return absl::InvalidArgumentError("incarnation 0 names no process");
  }
  if (job.current != nullptr) {
    return absl::FailedPreconditionError(
        job.current->epoch() == id.epoch
            ? absl::StrCat("epoch ", id.epoch.value(), " has not failed: it goes on")
            : absl::StrCat("epoch ", id.epoch.value(), " is over, and the job is in epoch ",
                           job.current->epoch().value(), " without this rank"));
  }
  if (job.failed == nullptr || job.failed->epoch() != id.epoch) {
    return absl::FailedPreconditionError(absl::StrCat(
        "epoch ", id.epoch.value(), " of job '", request.job,
        "' is not the last one that ran and failed: nothing of it is left to be rebuilt"));
  }
  if (!job.failed->WasMember(id)) {
    return absl::AbortedError(absl::StrCat("rank ", id.rank.value(), " of epoch ", id.epoch.value(),
                                           " was held by another process"));
  }
  return absl::OkStatus();
}

std::optional<Rank> Membership::RankInFailed(const Job& job, const FailureReport& report) {
  if (job.failed == nullptr) return std::nullopt;
  for (int32_t r = 0; r < job.failed->world_size(); ++r) {
    const JoinRequest& request = job.failed->RequestOf(Rank(r));
    const bool of_the_launch = request.launch == report.launch || report.launch == LaunchId(0);
    if (of_the_launch && request.launched_as.value_or(Rank(r)) == report.rank) return Rank(r);
  }
  return std::nullopt;
}

std::set<Rank> Membership::GoneRanks(const Job& job) {
  std::set<Rank> gone = job.failed->NotComing();
  FailureReport report;
  for (const auto& [launch, number] : job.ended_processes) {
    report.launch = launch;
    report.rank = number;
    if (const auto rank = RankInFailed(job, report); rank.has_value()) gone.insert(*rank);
  }
  return gone;
}

void Membership::NoteLateLeave(const MemberId& id, absl::Duration now, Replies* replies) {
  Job& job = jobs_.at(id.job);
  if (job.failed == nullptr || !job.failed->WasMember(id)) return;
  job.failed->LeaveLate(id.rank);
  if (job.rebuild == nullptr) return;
  job.rebuild->End(id.rank, replies);
  StartRebuilt(job, now, replies);
}

void Membership::NoteEndedProcess(const FailureReport& report, absl::Duration now,
                                  Replies* replies) {
  const auto entry = jobs_.find(report.job);
  if (entry == jobs_.end()) return;
  Job& job = entry->second;
  const bool is_of_the_job =
      report.launch == LaunchId(0) || job.ended_launches.contains(report.launch) ||
      (job.current != nullptr && job.current->launches().contains(report.launch));
  if (!is_of_the_job || job.ended_processes.size() >= limits::kMaxWorldSize) return;
  job.ended_processes.emplace(report.launch, report.rank);
  if (job.rebuild == nullptr) return;
  if (const auto rank = RankInFailed(job, report); rank.has_value()) {
    job.rebuild->End(*rank, replies);
    StartRebuilt(job, now, replies);
  }
}

Replies Membership::JoinSurvivor(const JoinRequest& request, Ticket ticket, absl::Duration now) {
  const auto entry = jobs_.find(request.job);
  if (entry == jobs_.end()) return {{ticket, FindJob(request.job).status()}};
  Job& job = entry->second;
  Replies replies;
  if (job.current != nullptr && job.current->is_rebuilt() &&
      job.current->Holds(request.incarnation)) {
    JoinRequest again = request;  // the answer to it was lost
    again.world_size = job.current->world_size();
    job.current->Join(again, ticket, now, &replies);
    return Finish(request.job, ticket, std::move(replies));
  }
  if (const absl::Status status = CheckSurvivor(job, request); !status.ok()) {
    return {{ticket, status}};
  }
  if (job.rebuild == nullptr) {
    job.rebuild = std::make_unique<MembershipRebuild>(job.failed->epoch(), job.failed->world_size(),
                                                      GoneRanks(job));
  }
  job.rebuild->Join(request, ticket, now, &replies);
  StartRebuilt(job, now, &replies);
  return Finish(request.job, ticket, std::move(replies));
}

void Membership::StartRebuilt(Job& job, absl::Duration now, Replies* replies) {
  if (!job.rebuild->empty() && !job.rebuild->IsComplete(now)) return;
  std::vector<MembershipRebuild::Survivor> survivors = job.rebuild->Finish(replies);
  job.rebuild.reset();
  if (survivors.empty()) return;
  const auto world_size = static_cast<int64_t>(survivors.size());
  int64_t next_rank = 0;
  for (auto& [request, ticket] : survivors) {
    const Rank rank = request.survivor_of->rank;
    request.launched_as = job.failed->RequestOf(rank).launched_as.value_or(rank);
    request.world_size = world_size;
    request.wanted_rank = next_rank++;
    if (job.current == nullptr) {
      job.current = std::make_unique<MembershipEpoch>(next_epoch_, request);
      next_epoch_ = Epoch(next_epoch_.value() + 1);
    }
    job.current->Join(request, ticket, now, replies);
  }
  job.failed.reset();
}

}  // namespace rz
