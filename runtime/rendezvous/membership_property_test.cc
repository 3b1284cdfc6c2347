// Random sequences of everything Membership takes, checked against what must hold always:
//   1. every ticket is answered exactly once, and none that was not given;
//   2. all who join one epoch get different ranks, the same addresses and a full world;
//   3. the epochs of a job grow, and no two jobs share one;
//   4. all verdicts of one epoch are the same;
//   5. when everybody has gone away and time has passed, nobody is left waiting.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/rendezvous/membership.h"

namespace rz {
namespace {

class RandomWalk {
 public:
  explicit RandomWalk(uint32_t seed) : random_(seed) {}

  void Step() {
    const Ticket ticket = next_ticket_++;
    now_ += absl::Milliseconds(Below(2000));
    switch (Below(12)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const JoinRequest request = RandomJoin();
        job_of_[ticket] = request.job;
        return Ask(ticket, membership_.Join(request, ticket, now_));
      }
      case 4:
      case 5:
        return Ask(ticket, membership_.Watch(RandomMember(), ticket, now_));
      case 6:
      case 7: {
        const BarrierRequest request = RandomBarrier();
        pass_of_[ticket] = {{request.member.epoch, request.id}, request.counter + 1};
        return Ask(ticket, membership_.Barrier(request, ticket, now_));
      }
      case 8:
        return Ask(ticket, membership_.ReportFailure(RandomReport(), ticket, now_));
      case 9:
        return Ask(ticket, membership_.Leave(RandomMember(), ticket, now_));
      case 10:
        if (!waiting_.empty()) {
          const Ticket gone = *std::next(waiting_.begin(), Below(waiting_.size()));
          Take(membership_.Cancel(gone, now_));
          EXPECT_FALSE(waiting_.contains(gone));
        }
        return;
      default:
        return Take(membership_.Expire(now_));
    }
  }

  void Finish() {
    while (!waiting_.empty()) Take(membership_.Cancel(*waiting_.begin(), now_));
    EXPECT_EQ(membership_.unanswered_count(), 0);
    now_ += absl::Hours(2);
    // Suspicions that begin now end within a grace.
    for (int i = 0; i < 2; ++i) {
      Take(membership_.Expire(now_));
      now_ += limits::kSuspicionGrace;
    }
    EXPECT_TRUE(membership_.NextDeadline() > now_)
        << absl::FormatDuration(membership_.NextDeadline());
  }

  int completed_epochs() const { return static_cast<int>(addresses_of_.size()); }
  int passed_barriers() const { return passed_barriers_; }
  int verdicts() const { return static_cast<int>(verdict_of_.size()); }

 private:
  uint32_t Below(size_t bound) { return static_cast<uint32_t>(random_() % bound); }

  std::string RandomJob() { return Below(4) == 0 ? "b" : "a"; }

  JoinRequest RandomJoin() {
    JoinRequest request;
    request.job = RandomJob();
    request.world_size = Below(20) == 0 ? Below(4) : 3;
    if (Below(2) == 0) request.wanted_rank = static_cast<int64_t>(Below(4)) - (Below(30) == 0);
    request.incarnation = Incarnation(Below(8));
    request.address = std::string(1, static_cast<char>('A' + request.incarnation.value()));
    request.host = std::string(1, static_cast<char>('x' + Below(2)));
    request.config_hash = Below(30) == 0;
    request.launch = LaunchId(Below(3));
    request.timeout = absl::Seconds(1 + Below(300));
    return request;
  }

  MemberId RandomMember() {
    if (members_.empty() || Below(10) == 0) {
      return {RandomJob(), Epoch(Below(5)), Rank(static_cast<int>(Below(5)) - 1),
              Incarnation(Below(8))};
    }
    // Mostly of the latest epochs.
    return members_[members_.size() - 1 - Below(std::min<size_t>(members_.size(), 8))];
  }

  BarrierRequest RandomBarrier() {
    BarrierRequest request;
    request.member = RandomMember();
    request.id = Below(2) == 0 ? "p" : "q";
    request.counter = Below(30) == 0 ? Below(3) : passes_[{request.member.epoch, request.id}];
    if (Below(30) == 0) request.participants = {Rank(0), Rank(1)};
    request.timeout = absl::Seconds(1 + Below(100));
    return request;
  }

  FailureReport RandomReport() {
    FailureReport report;
    const MemberId reporter = RandomMember();
    report.job = reporter.job;
    report.rank = Rank(static_cast<int>(Below(4)));
    report.kind = static_cast<FailureKind>(Below(4));
    report.detail = "x";
    if (Below(2) == 0) report.epoch = reporter.epoch;
    if (!report.OfLauncher()) report.reporter = reporter;
    // Mostly one that nobody has, or hardly any epoch would form.
    if (report.OfLauncher()) report.launch = LaunchId(Below(100));
    return report;
  }

  void Ask(Ticket ticket, const Replies& replies) {
    waiting_.insert(ticket);
    Take(replies);
  }

  void Take(const Replies& replies) {
    for (const Reply& reply : replies) {
      EXPECT_EQ(waiting_.erase(reply.ticket), 1) << "ticket " << reply.ticket;
      if (reply.assignment.has_value()) {
        TakeAssignment(job_of_.at(reply.ticket), *reply.assignment);
      }
      if (reply.status.ok() && pass_of_.contains(reply.ticket)) {
        ++passed_barriers_;
        const auto& [barrier, pass] = pass_of_.at(reply.ticket);
        passes_[barrier] = std::max(passes_[barrier], pass);
      }
      if (reply.verdict.has_value()) {
        const auto [known, is_new] =
            verdict_of_.try_emplace(reply.verdict->epoch, reply.verdict->message);
        EXPECT_EQ(known->second, reply.verdict->message);
      }
    }
    EXPECT_EQ(membership_.unanswered_count(), waiting_.size());
  }

  void TakeAssignment(const std::string& job, const Assignment& assignment) {
    const Addresses& addresses = *assignment.addresses;
    const auto [known, is_new] = addresses_of_.try_emplace(assignment.epoch, addresses);
    EXPECT_EQ(known->second, addresses);
    EXPECT_EQ(job_of_epoch_.try_emplace(assignment.epoch, job).first->second, job);
    EXPECT_GE(assignment.epoch, latest_epoch_[job]);
    latest_epoch_[job] = assignment.epoch;
    EXPECT_EQ(std::set<std::string>(addresses.begin(), addresses.end()).size(), addresses.size());
    ASSERT_LT(static_cast<size_t>(assignment.rank.value()), addresses.size());
    const uint64_t incarnation = addresses[assignment.rank.value()][0] - 'A';
    members_.push_back({job, assignment.epoch, assignment.rank, Incarnation(incarnation)});
  }

  std::mt19937 random_;
  Membership membership_;
  absl::Duration now_;
  Ticket next_ticket_ = 1;
  std::set<Ticket> waiting_;
  std::vector<MemberId> members_;
  std::map<Epoch, Addresses> addresses_of_;
  std::map<Epoch, std::string> job_of_epoch_;
  std::map<std::string, Epoch> latest_epoch_;
  std::map<Epoch, std::string> verdict_of_;
  std::map<Ticket, std::string> job_of_;  // of joins
  using BarrierName = std::pair<Epoch, std::string>;
  std::map<Ticket, std::pair<BarrierName, int64_t>> pass_of_;  // of barriers
  std::map<BarrierName, int64_t> passes_;
  int passed_barriers_ = 0;
};

TEST(MembershipPropertyTest, RandomSequencesKeepThePromises) {
  int completed = 0, verdicts = 0, passed = 0;
  for (uint32_t seed = 0; seed < 1000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomWalk walk(seed);
    for (int step = 0; step < 300; ++step) walk.Step();
    walk.Finish();
    completed += walk.completed_epochs();
    verdicts += walk.verdicts();
    passed += walk.passed_barriers();
  }
  // The walks must get somewhere to prove anything.
  EXPECT_GT(completed, 1000);
  EXPECT_GT(verdicts, 1000);
  EXPECT_GT(passed, 100);
}

}  // namespace
}  // namespace rz
