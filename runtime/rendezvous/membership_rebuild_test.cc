// How survivors of a failed epoch come to a new one: who is waited for, and for how long, who comes
// to which rank, and what is refused. Random worlds, deaths and orders at the end.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/rendezvous/membership.h"
#include "runtime/rendezvous/membership_testing.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::MembershipTest;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr LaunchId kLaunch{77};

class MembershipRebuildTest : public MembershipTest {
 protected:
  // As Run, of processes of a launcher.
  std::vector<MemberId> RunLaunched(int world, LaunchId launch = kLaunch) {
    std::vector<MemberId> ids;
    std::vector<Ticket> joins;
    for (int r = 0; r < world; ++r) {
      JoinRequest request = Worker(world, r, 100 + static_cast<uint64_t>(r));
      request.launch = launch;
      joins.push_back(Join(request));
    }
    for (int r = 0; r < world; ++r) {
      ids.push_back({"job", Of(joins[r]).assignment->epoch, Rank(r),
                     Incarnation(100 + static_cast<uint64_t>(r))});
      Watch(ids.back());
    }
    return ids;
  }

  // Survivors come with incarnation 1000 + that of before.
  static JoinRequest Survivor(const MemberId& was, int64_t least = 1,
                              absl::Duration timeout = absl::Seconds(30)) {
    JoinRequest request = Worker(0, std::nullopt, 1000 + was.incarnation.value());
    request.survivor_of = was;
    request.least_ranks = least;
    request.timeout = timeout;
    request.launch = kLaunch;
    return request;
  }

  FailureReport ProcessEnded(int number) {
    FailureReport report = Ended(number, "signal 9");
    report.launch = kLaunch;
    return report;
  }

  MemberId NewId(Ticket ticket, const MemberId& was) const {
    const Assignment& assignment = *Of(ticket).assignment;
    return {"job", assignment.epoch, assignment.rank, Incarnation(1000 + was.incarnation.value())};
  }
};

TEST_F(MembershipRebuildTest, RanksThatAllLiveGoOnAsTheyWere) {
  const std::vector<MemberId> ids = Run(3);
  Report(Noticed(ids[1], 1));
  const Ticket two = Join(Survivor(ids[2]));
  const Ticket zero = Join(Survivor(ids[0]));
  EXPECT_TRUE(Waits(two));
  const Ticket one = Join(Survivor(ids[1]));
  EXPECT_EQ(Of(zero).assignment->rank, Rank(0));
  EXPECT_EQ(Of(one).assignment->rank, Rank(1));
  EXPECT_EQ(Of(two).assignment->rank, Rank(2));
  EXPECT_GT(Of(two).assignment->epoch, ids[0].epoch);
  EXPECT_THAT(*Of(zero).assignment->addresses,
              ElementsAre("address 1100", "address 1101", "address 1102"));
}

TEST_F(MembershipRebuildTest, AProcessThatHasEndedIsNotWaitedForAndRanksCloseUp) {
  const std::vector<MemberId> ids = RunLaunched(4);
  Report(ProcessEnded(1));
  const Ticket three = Join(Survivor(ids[3]));
  const Ticket two = Join(Survivor(ids[2]));
  EXPECT_TRUE(Waits(three));
  const Ticket zero = Join(Survivor(ids[0]));
  EXPECT_EQ(Of(zero).assignment->rank, Rank(0));
  EXPECT_EQ(Of(two).assignment->rank, Rank(1));
  EXPECT_EQ(Of(three).assignment->rank, Rank(2));
  EXPECT_THAT(*Of(two).assignment->addresses,
              ElementsAre("address 1100", "address 1102", "address 1103"));
}

TEST_F(MembershipRebuildTest, ARankWhoseConnectionWasLostIsNotWaitedForButMayCome) {
  for (bool comes : {false, true}) {
    membership_ = Membership();
    watches_.clear();
    const std::vector<MemberId> ids = Run(2);
    Cancel(watches_[1]);
    Pass(limits::kSuspicionGrace);
    Ticket one = 0;
    if (comes) {
      one = Join(Survivor(ids[1]));
      EXPECT_TRUE(Waits(one));
    }
    const Ticket zero = Join(Survivor(ids[0]));
    ASSERT_THAT(Of(zero).status, IsOk());
    EXPECT_EQ(Of(zero).assignment->addresses->size(), comes ? 2u : 1u);
  }
}

TEST_F(MembershipRebuildTest, OneThatHasLeftIsNotWaitedFor) {
  const std::vector<MemberId> ids = Run(3);
  Leave(ids[2]);
  Report(Noticed(ids[0], 0));
  Join(Survivor(ids[0]));
  const Ticket one = Join(Survivor(ids[1]));
  ASSERT_THAT(Of(one).status, IsOk());
  EXPECT_EQ(Of(one).assignment->addresses->size(), 2u);
}

TEST_F(MembershipRebuildTest, OneThatLeavesAfterTheFailureIsNotWaitedFor) {
  for (bool before_they_come : {false, true}) {
    membership_ = Membership();
    const std::vector<MemberId> ids = Run(3);
    Report(Noticed(ids[0], 0));
    if (before_they_come) Leave(ids[2]);
    Join(Survivor(ids[0]));
    const Ticket one = Join(Survivor(ids[1]));
    EXPECT_EQ(Waits(one), !before_they_come);
    if (!before_they_come) Leave(ids[2]);
    ASSERT_THAT(Of(one).status, IsOk());
    EXPECT_EQ(Of(one).assignment->addresses->size(), 2u);
  }
}

TEST_F(MembershipRebuildTest, OneThatDoesNotComeIsWaitedForUntilTheEarliestDeadline) {
  const std::vector<MemberId> ids = Run(3);
  Report(Noticed(ids[0], 0));
  const Ticket zero = Join(Survivor(ids[0], 1, absl::Seconds(30)));
  Pass(absl::Seconds(10));
  const Ticket two = Join(Survivor(ids[2], 1, absl::Seconds(5)));
  EXPECT_THAT(membership_.GatheringOf("job")->missing, ElementsAre(Rank(1)));
  EXPECT_EQ(membership_.NextDeadline(), now_ + absl::Seconds(5));
  Pass(absl::Seconds(5));
  EXPECT_EQ(Of(zero).assignment->rank, Rank(0));
  EXPECT_EQ(Of(two).assignment->rank, Rank(1));
  EXPECT_THAT(Of(Join(Survivor(ids[1]))).status,
              StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("epoch 1 is over"),
                                                        HasSubstr("epoch 2 without this rank"))));
}

TEST_F(MembershipRebuildTest, TooFewAreTold) {
  const std::vector<MemberId> ids = RunLaunched(3);
  Report(ProcessEnded(2));
  const Ticket zero = Join(Survivor(ids[0], 3));
  const Ticket one = Join(Survivor(ids[1], 3));
  for (Ticket ticket : {zero, one}) {
    EXPECT_THAT(Of(ticket).status,
                StatusIs(Code::kFailedPrecondition,
                         AllOf(HasSubstr("2 of 3 ranks are left of epoch 1, fewer than the 3"),
                               HasSubstr("gone: rank 2"))));
  }
  // They may think again.
  Join(Survivor(ids[0], 2));
  EXPECT_THAT(Of(Join(Survivor(ids[1], 2))).status, IsOk());
}

TEST_F(MembershipRebuildTest, TooFewInTimeAreToldWhoDidNotCome) {
  const std::vector<MemberId> ids = Run(3);
  Report(Noticed(ids[0], 0));
  const Ticket zero = Join(Survivor(ids[0], 2));
  Pass(absl::Seconds(30));
  EXPECT_THAT(Of(zero).status,
              StatusIs(Code::kDeadlineExceeded, HasSubstr("did not come: ranks 1-2")));
  EXPECT_EQ(membership_.NextDeadline(), absl::InfiniteDuration());
}

TEST_F(MembershipRebuildTest, AnotherDeathWhileTheyGather) {
  const std::vector<MemberId> ids = RunLaunched(4);
  Report(ProcessEnded(0));
  const Ticket one = Join(Survivor(ids[1]));
  const Ticket two = Join(Survivor(ids[2]));
  Report(ProcessEnded(1));
  EXPECT_THAT(Of(one).status, StatusIs(Code::kCancelled));
  EXPECT_TRUE(Waits(two));
  Report(ProcessEnded(3));
  ASSERT_THAT(Of(two).status, IsOk());
  EXPECT_EQ(Of(two).assignment->rank, Rank(0));
}

TEST_F(MembershipRebuildTest, OneThatGoesAwayIsWaitedForAgain) {
  const std::vector<MemberId> ids = Run(2);
  Report(Noticed(ids[0], 0));
  const Ticket lost = Join(Survivor(ids[0]));
  Cancel(lost);
  const Ticket one = Join(Survivor(ids[1]));
  EXPECT_TRUE(Waits(one));
  Join(Survivor(ids[0]));
  EXPECT_EQ(Of(one).assignment->rank, Rank(1));
}

TEST_F(MembershipRebuildTest, AskingAgainGetsTheSameAnswer) {
  const std::vector<MemberId> ids = RunLaunched(3);
  Report(ProcessEnded(0));
  const Ticket lost = Join(Survivor(ids[1]));
  const Ticket again = Join(Survivor(ids[1]));
  EXPECT_THAT(Of(lost).status, StatusIs(Code::kAborted));
  Join(Survivor(ids[2]));
  const Ticket later = Join(Survivor(ids[1]));
  EXPECT_EQ(Of(again).assignment->rank, Rank(0));
  EXPECT_EQ(Of(later).assignment->rank, Rank(0));
  EXPECT_EQ(Of(later).assignment->epoch, Of(again).assignment->epoch);
}

TEST_F(MembershipRebuildTest, LaunchersSpeakOfRanksByTheirFirstNumbers) {
  const std::vector<MemberId> ids = RunLaunched(3);
  Report(ProcessEnded(0));
  const Ticket one = Join(Survivor(ids[1]));
  const Ticket two = Join(Survivor(ids[2]));
  const std::vector<MemberId> rebuilt = {NewId(one, ids[1]), NewId(two, ids[2])};
  const Ticket watch = Watch(rebuilt[0]);
  Watch(rebuilt[1]);
  Report(ProcessEnded(2));
  EXPECT_EQ(VerdictOf(watch), "rank 1 ended: signal 9");
  // And so in the next.
  const Ticket last = Join(Survivor(rebuilt[0]));
  ASSERT_THAT(Of(last).status, IsOk());
  EXPECT_EQ(Of(last).assignment->rank, Rank(0));
  EXPECT_EQ(Of(last).assignment->addresses->size(), 1u);
}

TEST_F(MembershipRebuildTest, WhatCannotBeIsRefused) {
  const auto refused = [&](const JoinRequest& request, Code code, const std::string& why) {
    EXPECT_THAT(Of(Join(request)).status, StatusIs(code, HasSubstr(why)));
  };
  MemberId nobody{"job", Epoch(1), Rank(0), Incarnation(100)};
  refused(Survivor(nobody), Code::kNotFound, "no job");
  const std::vector<MemberId> ids = RunLaunched(3);
  refused(Survivor(ids[0]), Code::kFailedPrecondition, "has not failed");
  Report(ProcessEnded(2));
  MemberId other = ids[0];
  other.incarnation = Incarnation(5);
  refused(Survivor(other), Code::kAborted, "held by another process");
  other = ids[0];
  other.rank = Rank(3);
  refused(Survivor(other), Code::kAborted, "rank 3");
  other = ids[0];
  other.epoch = Epoch(9);
  refused(Survivor(other), Code::kFailedPrecondition, "not the last one");
  JoinRequest no_process = Survivor(ids[0]);
  no_process.incarnation = Incarnation(0);
  refused(no_process, Code::kInvalidArgument, "incarnation 0");
  const Ticket zero = Join(Survivor(ids[0], 2));
  refused(Worker(3, 0, 7), Code::kFailedPrecondition, "being rebuilt");
  refused(Survivor(ids[1], 1), Code::kFailedPrecondition, "asks for 1 ranks at least");
  JoinRequest other_configuration = Survivor(ids[1], 2);
  other_configuration.config_hash = 5;
  refused(other_configuration, Code::kFailedPrecondition, "another configuration");
  EXPECT_TRUE(Waits(zero));
  Join(Survivor(ids[1], 2));
  EXPECT_THAT(Of(zero).status, IsOk());
}

TEST_F(MembershipRebuildTest, AnEpochThatDidNotRunOrEndedWellIsNotRebuilt) {
  Join(Worker(2, 0, 100));
  FailureReport report = Ended(1);
  Report(report);
  EXPECT_THAT(Of(Join(Survivor({"job", Epoch(1), Rank(0), Incarnation(100)}))).status,
              StatusIs(Code::kFailedPrecondition, HasSubstr("not the last one that ran")));
  const std::vector<MemberId> ids = Run(2);
  Leave(ids[0]);
  Leave(ids[1]);
  EXPECT_THAT(Of(Join(Survivor(ids[0]))).status, StatusIs(Code::kFailedPrecondition));
  // One that begins anew is not rebuilt either.
  const std::vector<MemberId> again = Run(2);
  Report(Noticed(again[0], 0));
  Join(Worker(2, 0, 7));
  EXPECT_THAT(Of(Join(Survivor(again[0]))).status, StatusIs(Code::kFailedPrecondition));
}

// One random history: epochs follow each other, ranks die before or while the others gather, until
// one rank is left. Every survivor is answered, in the order of ranks, and nobody waits for the
// dead.
TEST_F(MembershipRebuildTest, RandomDeathsLeaveTheLivingInOrder) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    membership_ = Membership();
    const int world = 2 + static_cast<int>(random() % 7);
    std::vector<MemberId> ids = RunLaunched(world);
    std::vector<int> numbers(static_cast<size_t>(world));  // at the launcher, by rank
    for (int r = 0; r < world; ++r) numbers[static_cast<size_t>(r)] = r;
    while (ids.size() > 1) {
      std::set<size_t> dead;
      const size_t deaths = 1 + random() % (ids.size() - 1);
      while (dead.size() < deaths) dead.insert(random() % ids.size());
      std::vector<size_t> events(ids.size());
      for (size_t r = 0; r < ids.size(); ++r) events[r] = r;
      std::shuffle(events.begin(), events.end(), random);
      // The last one to come lives, or they would be complete with one that is about to die.
      const auto living =
          std::find_if(events.begin(), events.end(), [&](size_t r) { return !dead.contains(r); });
      std::swap(*living, events.back());
      Report(ProcessEnded(numbers[*dead.begin()]));
      std::vector<Ticket> tickets(ids.size());
      for (size_t r : events) {
        // Some of the dead had come before they died.
        if (!dead.contains(r) || random() % 2 == 0) tickets[r] = Join(Survivor(ids[r]));
        if (dead.contains(r)) Report(ProcessEnded(numbers[r]));
      }
      std::vector<MemberId> next;
      std::vector<int> next_numbers;
      for (size_t r = 0; r < ids.size(); ++r) {
        if (dead.contains(r)) continue;
        ASSERT_THAT(Of(tickets[r]).status, IsOk());
        ASSERT_EQ(Of(tickets[r]).assignment->rank, Rank(static_cast<int32_t>(next.size())));
        ASSERT_EQ(Of(tickets[r]).assignment->addresses->size(), ids.size() - dead.size());
        next.push_back(NewId(tickets[r], ids[r]));
        next_numbers.push_back(numbers[r]);
      }
      for (const MemberId& id : next) Watch(id);
      ids = std::move(next);
      numbers = std::move(next_numbers);
    }
    EXPECT_EQ(membership_.unanswered_count(), 1u) << "its Watch";
  }
}

}  // namespace
}  // namespace rz
