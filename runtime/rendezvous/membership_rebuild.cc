#include "runtime/rendezvous/membership_rebuild.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/rendezvous/membership_text.h"

namespace rz {

absl::Status MembershipRebuild::CheckAgreement(const JoinRequest& request) const {
  if (survivors_.empty()) return absl::OkStatus();
  const JoinRequest& first = survivors_.begin()->second.request;
  if (request.config_hash != first.config_hash) {
    return absl::FailedPreconditionError(
        "this rank has another configuration than those that have come: start all with the same "
        "flags and build");
  }
  if (request.least_ranks != first.least_ranks) {
    return absl::FailedPreconditionError(
        absl::StrCat("this rank asks for ", request.least_ranks, " ranks at least, and rank ",
                     survivors_.begin()->first.value(), " for ", first.least_ranks,
                     ": ask for the same everywhere"));
  }
  return absl::OkStatus();
}

void MembershipRebuild::Join(const JoinRequest& request, Ticket ticket, absl::Duration now,
                             Replies* replies) {
  if (absl::Status status = CheckAgreement(request); !status.ok()) {
    replies->push_back({ticket, std::move(status)});
    return;
  }
  const Rank rank = request.survivor_of->rank;
  const auto [entry, is_new] = survivors_.try_emplace(rank, Survivor{request, ticket});
  if (!is_new) {
    replies->push_back(
        {entry->second.ticket, absl::AbortedError("the same rank asked to join again")});
    entry->second = {request, ticket};
  }
  gone_.erase(rank);
  deadline_ = std::min(deadline_, now + request.timeout);
}

void MembershipRebuild::Cancel(Ticket ticket) {
  std::erase_if(survivors_, [&](const auto& entry) { return entry.second.ticket == ticket; });
}

void MembershipRebuild::End(Rank rank, Replies* replies) {
  gone_.insert(rank);
  const auto entry = survivors_.find(rank);
  if (entry == survivors_.end()) return;
  replies->push_back({entry->second.ticket, absl::CancelledError("the process has ended")});
  survivors_.erase(entry);
}

bool MembershipRebuild::IsComplete(absl::Duration now) const {
  return now >= deadline_ || static_cast<int64_t>(survivors_.size() + gone_.size()) >= world_size_;
}

std::vector<Rank> MembershipRebuild::MissingRanks() const {
  std::vector<Rank> missing;
  for (int32_t r = 0; r < world_size_; ++r) {
    if (!survivors_.contains(Rank(r)) && !gone_.contains(Rank(r))) missing.push_back(Rank(r));
  }
  return missing;
}

std::vector<MembershipRebuild::Survivor> MembershipRebuild::Finish(Replies* replies) {
  std::vector<Survivor> survivors;
  for (auto& [rank, survivor] : survivors_) survivors.push_back(std::move(survivor));
  const auto count = static_cast<int64_t>(survivors.size());
  if (survivors.empty() || count >= survivors.front().request.least_ranks) return survivors;
  const std::vector<Rank> missing = MissingRanks();
  std::string text = absl::StrCat(count, " of ", world_size_, " ranks are left of epoch ",
                                  failed_.value(), ", fewer than the ",
                                  survivors.front().request.least_ranks, " that are asked for");
  if (!gone_.empty()) {
    absl::StrAppend(&text, "; gone: ", FormatRanks(std::vector<Rank>(gone_.begin(), gone_.end())));
  }
  if (!missing.empty()) absl::StrAppend(&text, "; did not come: ", FormatRanks(missing));
  for (const Survivor& survivor : survivors) {
    replies->push_back({survivor.ticket, missing.empty() ? absl::FailedPreconditionError(text)
                                                         : absl::DeadlineExceededError(text)});
  }
  return {};
}

}  // namespace rz
