// For tests of Membership: its replies gathered by ticket, and a clock turned by hand.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_TESTING_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_TESTING_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/rendezvous/membership.h"

namespace rz::testing {

class MembershipTest : public ::testing::Test {
 protected:
  static JoinRequest Worker(int64_t world, std::optional<int64_t> rank, uint64_t incarnation) {
    JoinRequest request;
    request.job = "job";
    request.world_size = world;
    request.wanted_rank = rank;
    request.incarnation = Incarnation(incarnation);
    request.address = absl::StrCat("address ", incarnation);
    request.host = "host";
    return request;
  }

  Ticket Join(const JoinRequest& request) { return Keep(membership_.Join(request, ++last_, now_)); }
  Ticket Watch(const MemberId& id) { return Keep(membership_.Watch(id, ++last_, now_)); }
  Ticket Leave(const MemberId& id) { return Keep(membership_.Leave(id, ++last_, now_)); }
  Ticket Report(const FailureReport& report) {
    return Keep(membership_.ReportFailure(report, ++last_, now_));
  }
  Ticket Barrier(const MemberId& id, int64_t counter = 0, std::vector<Rank> participants = {},
                 absl::Duration timeout = absl::Seconds(10)) {
    return Keep(membership_.Barrier({id, "barrier", counter, std::move(participants), timeout},
                                    ++last_, now_));
  }
  void Cancel(Ticket ticket) { Keep(membership_.Cancel(ticket, now_)); }
  void Pass(absl::Duration time) {
    now_ += time;
    Keep(membership_.Expire(now_));
  }

  // Joins ranks 0 .. world - 1 with incarnations 100, 101, ... and watches.
  std::vector<MemberId> Run(int world) {
    std::vector<MemberId> ids;
    std::vector<Ticket> joins;
    for (int r = 0; r < world; ++r) joins.push_back(Join(Worker(world, r, 100 + r)));
    for (int r = 0; r < world; ++r) {
      ids.push_back({"job", Of(joins[r]).assignment->epoch, Rank(r), Incarnation(100 + r)});
      watches_.push_back(Watch(ids.back()));
    }
    return ids;
  }

  FailureReport Ended(int rank, std::string detail = "exit status 1") {
    FailureReport report;
    report.job = "job";
    report.rank = Rank(rank);
    report.detail = std::move(detail);
    return report;
  }

  FailureReport Noticed(const MemberId& reporter, int rank) {
    FailureReport report = Ended(rank, "link broke");
    report.epoch = reporter.epoch;
    report.kind = reporter.rank == Rank(rank) ? FailureKind::kSelf : FailureKind::kPeer;
    report.reporter = reporter;
    return report;
  }

  bool Waits(Ticket ticket) const { return !replies_.contains(ticket); }
  const Reply& Of(Ticket ticket) const {
    static const Reply waiting{.ticket = 0, .status = absl::UnknownError("no reply yet")};
    const auto entry = replies_.find(ticket);
    return entry == replies_.end() ? waiting : entry->second;
  }
  std::string VerdictOf(Ticket ticket) const {
    return Of(ticket).verdict.has_value() ? Of(ticket).verdict->message : "none";
  }

  Membership membership_;
  absl::Duration now_ = absl::Seconds(1000);
  std::vector<Ticket> watches_;

 private:
  Ticket Keep(const Replies& replies) {
    for (const Reply& reply : replies) {
      EXPECT_TRUE(replies_.emplace(reply.ticket, reply).second)
          << "ticket " << reply.ticket << " was answered twice";
    }
    return last_;
  }

  Ticket last_ = 0;
  std::map<Ticket, Reply> replies_;
};

}  // namespace rz::testing

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_TESTING_H_
