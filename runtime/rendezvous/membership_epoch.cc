#include "runtime/rendezvous/membership_epoch.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status_macros.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/membership_text.h"

namespace rz {
namespace {

std::string RankName(Rank rank) { return absl::StrCat("rank ", rank.value()); }

std::string HashName(uint64_t hash) { return absl::StrFormat("%016x", hash); }

// `joined`: that the rank's process had asked to join.
std::string VerdictMessage(const FailureReport& report, bool joined) {
  switch (report.kind) {
    case FailureKind::kEnded:
    case FailureKind::kExited:
      return absl::StrCat(RankName(report.rank), " ended", joined ? "" : " before it joined", ": ",
                          report.detail);
    case FailureKind::kSelf:
      return absl::StrCat(RankName(report.rank), " failed: ", report.detail);
    case FailureKind::kPeer:
      return absl::StrCat(RankName(report.rank), " failed: ", report.detail, " (noticed by ",
                          RankName(report.reporter->rank), ")");
  }
  return RankName(report.rank);
}

}  // namespace

MembershipEpoch::MembershipEpoch(Epoch epoch, const JoinRequest& first)
    : epoch_(epoch),
      job_(first.job),
      world_size_(first.world_size),
      config_hash_(first.config_hash),
      is_rebuilt_(first.launched_as.has_value()),
      barriers_(static_cast<int>(first.world_size)) {}

absl::Status MembershipEpoch::CheckMember(const MemberId& id) const {
  if (state_ == State::kGathering) {
    return absl::FailedPreconditionError(
        absl::StrCat("job '", job_, "' is still gathering: no rank has been given yet"));
  }
  if (id.rank.value() < 0 || id.rank.value() >= world_size_) {
    return absl::InvalidArgumentError(
        absl::StrCat(RankName(id.rank), " is outside the world of ", world_size_));
  }
  const Member& member = members_[id.rank.value()];
  if (member.request.incarnation != id.incarnation) {
    return absl::AbortedError(absl::StrCat(RankName(id.rank), " of job '", job_,
                                           "' is held by another process, on host ",
                                           member.request.host));
  }
  if (member.left) {
    return absl::FailedPreconditionError(absl::StrCat(RankName(id.rank), " has left epoch ",
                                                      epoch_.value(), " of job '", job_, "'"));
  }
  return absl::OkStatus();
}

absl::Status MembershipEpoch::CheckNewcomer(const JoinRequest& request) const {
  if (request.world_size != world_size_) {
    return absl::FailedPreconditionError(
        absl::StrCat("job '", job_, "' has world size ", world_size_,
                     " (said by the first worker to join), this worker says ", request.world_size,
                     ": start all with the same"));
  }
  if (request.config_hash != config_hash_) {
    return absl::FailedPreconditionError(
        absl::StrCat("job '", job_, "' has configuration ", HashName(config_hash_),
                     " (said by the first worker to join), this worker has ",
                     HashName(request.config_hash), ": start all with the same flags and build"));
  }
  if (state_ == State::kRunning) {
    if (!request.wanted_rank.has_value()) {
      return absl::AlreadyExistsError(absl::StrCat("job '", job_, "' is running with all its ",
                                                   world_size_, " ranks (epoch ", epoch_.value(),
                                                   ")"));
    }
    const Member& holder = members_[*request.wanted_rank];
    return absl::AlreadyExistsError(absl::StrCat(
        "rank ", *request.wanted_rank, " of job '", job_, "' ",
        holder.left ? "was held in this epoch" : "is held", " by another process, on host ",
        holder.request.host, "; the job is running (epoch ", epoch_.value(), ")"));
  }
  if (!request.wanted_rank.has_value()) return absl::OkStatus();
  for (const auto& [incarnation, other] : newcomers_) {
    if (other.request.wanted_rank == request.wanted_rank && incarnation != request.incarnation) {
      return absl::AlreadyExistsError(absl::StrCat("rank ", *request.wanted_rank, " of job '", job_,
                                                   "' is held by another process, on host ",
                                                   other.request.host));
    }
  }
  return absl::OkStatus();
}

Assignment MembershipEpoch::AssignmentOf(Rank rank) const {
  return {.rank = rank, .epoch = epoch_, .addresses = addresses_};
}

void MembershipEpoch::Join(const JoinRequest& request, Ticket ticket, absl::Duration now,
                           Replies* replies) {
  // A retry by a process that holds a rank; it must still say the same.
  if (const auto held = rank_of_.find(request.incarnation); held != rank_of_.end()) {
    const MemberId id{job_, epoch_, held->second, request.incarnation};
    absl::Status status = CheckMember(id);
    if (status.ok() && (request.world_size != world_size_ || request.config_hash != config_hash_)) {
      status = CheckNewcomer(request);
    }
    Reply reply{.ticket = ticket, .status = std::move(status)};
    if (reply.status.ok()) reply.assignment = AssignmentOf(held->second);
    replies->push_back(std::move(reply));
    return;
  }
  if (absl::Status status = CheckNewcomer(request); !status.ok()) {
    last_refusal_ =
        absl::StrCat("a worker from host ", request.host, " was refused: ", status.message());
    replies->push_back({ticket, std::move(status)});
    return;
  }
  const auto [entry, is_new] =
      newcomers_.try_emplace(request.incarnation, Newcomer{request, ticket, arrivals_});
  if (request.launch != LaunchId(0)) launches_.insert(request.launch);
  if (is_new) {
    ++arrivals_;
  } else {
    replies->push_back(
        {entry->second.ticket, absl::AbortedError("the same process asked to join again")});
    entry->second.ticket = ticket;
    entry->second.request = request;
  }
  if (now + request.timeout < join_deadline_) {
    join_deadline_ = now + request.timeout;
    join_timeout_ = request.timeout;
  }
  if (static_cast<int64_t>(newcomers_.size()) == world_size_) StartRunning(now, replies);
}

std::map<Rank, Incarnation> MembershipEpoch::GiveRanks() const {
  std::map<Rank, Incarnation> given;
  std::vector<const Newcomer*> automatic;
  for (const auto& [incarnation, newcomer] : newcomers_) {
    if (newcomer.request.wanted_rank.has_value()) {
      given[Rank(static_cast<int32_t>(*newcomer.request.wanted_rank))] = incarnation;
    } else {
      automatic.push_back(&newcomer);
    }
  }
  const auto order = [](const Newcomer* newcomer) {
    return std::tuple<const std::string&, int64_t, uint64_t>(
        newcomer->request.host,
        newcomer->request.local_index.value_or(std::numeric_limits<int64_t>::max()),
        newcomer->arrival);
  };
  std::sort(automatic.begin(), automatic.end(),
            [&](const Newcomer* a, const Newcomer* b) { return order(a) < order(b); });
  int32_t next = 0;
  for (const Newcomer* newcomer : automatic) {
    while (given.contains(Rank(next))) ++next;
    given[Rank(next)] = newcomer->request.incarnation;
  }
  return given;
}

void MembershipEpoch::StartRunning(absl::Duration now, Replies* replies) {
  auto addresses = std::make_shared<Addresses>();
  for (const auto& [rank, incarnation] : GiveRanks()) {
    JoinRequest& request = newcomers_.at(incarnation).request;
    rank_of_[incarnation] = rank;
    addresses->push_back(std::move(request.address));
    members_.push_back({.request = std::move(request)});
  }
  addresses_ = std::move(addresses);
  for (const auto& [incarnation, newcomer] : newcomers_) {
    replies->push_back({.ticket = newcomer.ticket,
                        .status = absl::OkStatus(),
                        .assignment = AssignmentOf(rank_of_.at(incarnation))});
  }
  newcomers_.clear();
  state_ = State::kRunning;
  join_deadline_ = absl::InfiniteDuration();
  watch_due_ = now + limits::kWatchDue;
}

std::vector<Rank> MembershipEpoch::MissingRanks() const {
  std::vector<Rank> missing;
  if (state_ != State::kGathering) return missing;
  const std::map<Rank, Incarnation> given = GiveRanks();
  for (int32_t r = 0; r < world_size_; ++r) {
    if (!given.contains(Rank(r))) missing.push_back(Rank(r));
  }
  return missing;
}

void MembershipEpoch::TimeOutGathering(Replies* replies) {
  const absl::Status status = absl::DeadlineExceededError(
      absl::StrCat("job '", job_, "': ", newcomers_.size(), " of ", world_size_,
                   " ranks joined within ", absl::FormatDuration(join_timeout_), "; missing ",
                   FormatRanks(MissingRanks()), last_refusal_.empty() ? "" : "; ", last_refusal_));
  for (const auto& [incarnation, newcomer] : newcomers_) {
    replies->push_back({newcomer.ticket, status});
  }
  newcomers_.clear();
  state_ = State::kEnded;
}

void MembershipEpoch::Watch(const MemberId& id, Ticket ticket, Replies* replies) {
  if (absl::Status status = CheckMember(id); !status.ok()) {
    replies->push_back({ticket, std::move(status)});
    return;
  }
  Member& member = members_[id.rank.value()];
  if (member.watch.has_value()) {
    replies->push_back({*member.watch, absl::AbortedError("the same rank watches anew")});
  }
  member.watch = ticket;
  member.has_watched = true;
  std::erase_if(suspicions_, [&](const Suspicion& suspicion) {
    return suspicion.cleared_by_watch && suspicion.verdict.rank == id.rank;
  });
}

void MembershipEpoch::Barrier(const BarrierRequest& request, Ticket ticket, absl::Duration now,
                              Replies* replies) {
  if (absl::Status status = CheckMember(request.member); !status.ok()) {
    replies->push_back({ticket, std::move(status)});
    return;
  }
  barriers_.Arrive(request, ticket, now, replies);
}

absl::Status MembershipEpoch::CheckReport(const FailureReport& report) const {
  if (is_rebuilt_ && report.OfLauncher()) return absl::OkStatus();
  if (report.rank.value() < 0 || report.rank.value() >= world_size_) {
    return absl::InvalidArgumentError(absl::StrCat("failure report: ", RankName(report.rank),
                                                   " is outside the world of ", world_size_));
  }
  if (report.OfLauncher()) return absl::OkStatus();
  if (!report.reporter.has_value()) {
    return absl::InvalidArgumentError("failure report: only a launcher may leave out who reports");
  }
  RZ_RETURN_IF_ERROR(CheckMember(*report.reporter));
  if ((report.kind == FailureKind::kSelf) != (report.reporter->rank == report.rank)) {
    return absl::InvalidArgumentError(
        absl::StrCat("failure report: ", RankName(report.reporter->rank), " speaks of ",
                     RankName(report.rank), ", which is not what the kind of report says"));
  }
  return absl::OkStatus();
}

const JoinRequest* MembershipEpoch::HolderOf(Rank rank) const {
  if (state_ == State::kRunning) return &members_[rank.value()].request;
  for (const auto& [incarnation, newcomer] : newcomers_) {
    if (newcomer.request.wanted_rank == rank.value()) return &newcomer.request;
  }
  return nullptr;
}

std::optional<Rank> MembershipEpoch::RankOfProcess(const FailureReport& report) const {
  if (!is_rebuilt_) {
    const bool is_rank = report.rank.value() >= 0 && report.rank.value() < world_size_;
    return is_rank ? std::optional<Rank>(report.rank) : std::nullopt;
  }
  for (size_t r = 0; r < members_.size(); ++r) {
    const JoinRequest& request = members_[r].request;
    const bool of_the_launch = request.launch == report.launch || report.launch == LaunchId(0);
    if (request.launched_as == report.rank && of_the_launch) return Rank(static_cast<int32_t>(r));
  }
  return std::nullopt;
}

bool MembershipEpoch::WasMember(const MemberId& id) const {
  return id.epoch == epoch_ && id.rank.value() >= 0 &&
         id.rank.value() < static_cast<int64_t>(members_.size()) &&
         RequestOf(id.rank).incarnation == id.incarnation;
}

std::set<Rank> MembershipEpoch::NotComing() const {
  std::set<Rank> ranks = lost_;
  for (size_t r = 0; r < members_.size(); ++r) {
    if (members_[r].left) ranks.insert(Rank(static_cast<int32_t>(r)));
  }
  return ranks;
}

void MembershipEpoch::EndProcess(const FailureReport& given, Replies* replies) {
  const std::optional<Rank> rank = RankOfProcess(given);
  if (!rank.has_value()) return;
  FailureReport report = given;
  report.rank = *rank;
  const JoinRequest* const holder = HolderOf(report.rank);
  if (holder != nullptr && holder->launch != report.launch && holder->launch != LaunchId(0) &&
      report.launch != LaunchId(0)) {
    return;
  }
  const bool left = state_ == State::kRunning && members_[report.rank.value()].left;
  if (report.kind == FailureKind::kExited && left) return;
  Fail({.epoch = epoch_, .rank = report.rank, .message = VerdictMessage(report, holder != nullptr)},
       replies);
}

void MembershipEpoch::ReportFailure(const FailureReport& report, Ticket ticket, absl::Duration now,
                                    Replies* replies) {
  if (absl::Status status = CheckReport(report); !status.ok()) {
    replies->push_back({ticket, std::move(status)});
    return;
  }
  Verdict verdict{
      .epoch = epoch_, .rank = report.rank, .message = VerdictMessage(report, /*joined=*/true)};
  if (report.OfLauncher()) {
    EndProcess(report, replies);
  } else if (report.kind == FailureKind::kPeer) {
    // One a suspected rank is enough: there are never more suspicions than twice the world.
    const bool known =
        std::any_of(suspicions_.begin(), suspicions_.end(), [&](const Suspicion& suspicion) {
          return !suspicion.cleared_by_watch && suspicion.verdict.rank == report.rank;
        });
    if (!known) suspicions_.push_back({now + limits::kSuspicionGrace, std::move(verdict)});
  } else {
    Fail(std::move(verdict), replies);
  }
  replies->push_back({.ticket = ticket, .status = absl::OkStatus(), .verdict = verdict_});
}

void MembershipEpoch::Leave(const MemberId& id, Ticket ticket, Replies* replies) {
  absl::Status status = CheckMember(id);
  const bool again =
      status.code() == absl::StatusCode::kFailedPrecondition && state_ == State::kRunning;
  replies->push_back({ticket, again ? absl::OkStatus() : status});
  if (!status.ok()) return;
  Member& member = members_[id.rank.value()];
  member.left = true;
  if (member.watch.has_value()) replies->push_back({*member.watch, absl::OkStatus()});
  member.watch.reset();
  std::erase_if(suspicions_, [&](const Suspicion& suspicion) {
    return suspicion.cleared_by_watch && suspicion.verdict.rank == id.rank;
  });
  barriers_.Leave(id.rank, replies);
  if (std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.left; })) {
    state_ = State::kEnded;
  }
}

void MembershipEpoch::SuspectLostConnection(Rank rank, absl::Duration now) {
  suspicions_.push_back(
      {.deadline = now + limits::kSuspicionGrace,
       .verdict = {.epoch = epoch_,
                   .rank = rank,
                   .message = absl::StrCat(RankName(rank), ": connection to the rendezvous lost")},
       .cleared_by_watch = true});
}

void MembershipEpoch::SuspectUnwatched(absl::Duration now) {
  watch_due_ = absl::InfiniteDuration();
  for (size_t r = 0; r < members_.size(); ++r) {
    const Member& member = members_[r];
    if (!member.has_watched && !member.left) {
      SuspectLostConnection(Rank(static_cast<int32_t>(r)), now);
    }
  }
}

void MembershipEpoch::Cancel(Ticket ticket, absl::Duration now, Replies* replies) {
  if (state_ == State::kGathering) {
    std::erase_if(newcomers_,
                  [ticket](const auto& entry) { return entry.second.ticket == ticket; });
    // Nobody is left to hold others to what the first one said.
    if (newcomers_.empty()) state_ = State::kEnded;
    return;
  }
  barriers_.Cancel(ticket);
  for (size_t r = 0; r < members_.size(); ++r) {
    if (members_[r].watch != ticket) continue;
    members_[r].watch.reset();
    SuspectLostConnection(Rank(static_cast<int32_t>(r)), now);
  }
}

void MembershipEpoch::Expire(absl::Duration now, Replies* replies) {
  if (state_ == State::kGathering && now >= join_deadline_) TimeOutGathering(replies);
  if (now >= watch_due_) SuspectUnwatched(now);
  if (!suspicions_.empty() && now >= suspicions_.front().deadline) {
    Fail(suspicions_.front().verdict, replies);
  }
  if (!ended()) barriers_.Expire(now, replies);
}

absl::Duration MembershipEpoch::NextDeadline() const {
  absl::Duration next = std::min(join_deadline_, watch_due_);
  if (!suspicions_.empty()) next = std::min(next, suspicions_.front().deadline);
  return std::min(next, barriers_.NextDeadline());
}

std::vector<Rank> MembershipEpoch::NotDone() const {
  std::vector<Rank> ranks;
  for (size_t r = 0; r < members_.size(); ++r) {
    const Rank rank(static_cast<int32_t>(r));
    if (!members_[r].left && !members_[r].told && !lost_.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

void MembershipEpoch::Fail(Verdict verdict, Replies* replies) {
  verdict_ = std::move(verdict);
  const absl::Status status = verdict_->ToStatus();
  for (const auto& [incarnation, newcomer] : newcomers_) {
    replies->push_back({.ticket = newcomer.ticket, .status = status, .verdict = verdict_});
  }
  newcomers_.clear();
  for (Member& member : members_) {
    if (!member.watch.has_value()) continue;
    replies->push_back({.ticket = *member.watch, .status = absl::OkStatus(), .verdict = verdict_});
    member.watch.reset();
    member.told = true;
  }
  barriers_.FailAll(status, verdict_, replies);
  for (const Suspicion& suspicion : suspicions_) {
    if (suspicion.cleared_by_watch) lost_.insert(suspicion.verdict.rank);
  }
  suspicions_.clear();
  watch_due_ = absl::InfiniteDuration();
  state_ = State::kEnded;
}

}  // namespace rz
