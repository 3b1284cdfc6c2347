// What launchers say of processes that have ended, before, while and after an epoch forms.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/rendezvous/membership_testing.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using Code = absl::StatusCode;

constexpr LaunchId kLaunch = LaunchId(77);
constexpr LaunchId kOther = LaunchId(78);

class MembershipEndingsTest : public ::rz::testing::MembershipTest {
 protected:
  static JoinRequest Launched(int64_t world, int64_t rank, uint64_t incarnation,
                              LaunchId launch = kLaunch) {
    JoinRequest request = Worker(world, rank, incarnation);
    request.launch = launch;
    return request;
  }

  FailureReport Killed(int rank, LaunchId launch = kLaunch) {
    FailureReport report = Ended(rank, "killed by signal 9 (Killed)");
    report.launch = launch;
    return report;
  }

  FailureReport Exited(int rank, LaunchId launch = kLaunch) {
    FailureReport report = Ended(rank, "exit status 0");
    report.kind = FailureKind::kExited;
    report.launch = launch;
    return report;
  }

  // Two ranks of `launch` join, watch and leave.
  void RunToTheEnd(LaunchId launch) {
    const Ticket zero = Join(Launched(2, 0, 200 + launch.value(), launch));
    Join(Launched(2, 1, 300 + launch.value(), launch));
    const Epoch epoch = Of(zero).assignment->epoch;
    EXPECT_OK(Of(Leave({"job", epoch, Rank(0), Incarnation(200 + launch.value())})).status);
    EXPECT_OK(Of(Leave({"job", epoch, Rank(1), Incarnation(300 + launch.value())})).status);
  }
};

TEST_F(MembershipEndingsTest, ARankThatExitedWellBeforeItJoinedLetsTheWaitersGo) {
  const Ticket waiting = Join(Launched(4, 0, 1));
  EXPECT_EQ(VerdictOf(Report(Exited(2))), "rank 2 ended before it joined: exit status 0");
  EXPECT_THAT(Of(waiting).status,
              StatusIs(Code::kUnavailable, "rank 2 ended before it joined: exit status 0"));
}

TEST_F(MembershipEndingsTest, AnEndingBeforeAnybodyJoinedIsRemembered) {
  for (const FailureReport& report : {Exited(2), Killed(1, kOther)}) {
    EXPECT_OK(Of(Report(report)).status);
  }
  const Ticket first = Join(Launched(4, 0, 1));
  EXPECT_THAT(Of(first).status,
              StatusIs(Code::kUnavailable, "rank 2 ended before it joined: exit status 0"));
  EXPECT_TRUE(Of(first).verdict.has_value());
  // Whoever comes later begins an epoch of its own and hears the same.
  EXPECT_EQ(VerdictOf(Join(Launched(4, 1, 2))), VerdictOf(first));
  EXPECT_EQ(VerdictOf(Join(Launched(4, 0, 3, kOther))),
            "rank 1 ended before it joined: killed by signal 9 (Killed)");
  EXPECT_EQ(membership_.unanswered_count(), 0);
}

TEST_F(MembershipEndingsTest, AJoinOfAProcessThatIsKnownToHaveEndedIsNoMember) {
  Report(Killed(1));
  EXPECT_EQ(VerdictOf(Join(Launched(2, 1, 1))), "rank 1 ended: killed by signal 9 (Killed)");
}

TEST_F(MembershipEndingsTest, OtherLaunchesAndHandStartedWorkersDoNotPayForIt) {
  Report(Killed(0));
  RunToTheEnd(kOther);
  const Ticket by_hand = Join(Launched(2, 0, 5, LaunchId(0)));
  EXPECT_TRUE(Waits(by_hand));
  Join(Launched(2, 1, 6, LaunchId(0)));
  EXPECT_OK(Of(by_hand).status);
}

TEST_F(MembershipEndingsTest, ExitsAfterLeavingAreNoFailures) {
  const Ticket zero = Join(Launched(2, 0, 1));
  Join(Launched(2, 1, 2));
  const MemberId ids[] = {{"job", Of(zero).assignment->epoch, Rank(0), Incarnation(1)},
                          {"job", Of(zero).assignment->epoch, Rank(1), Incarnation(2)}};
  const Ticket watch = Watch(ids[1]);
  Leave(ids[0]);
  EXPECT_EQ(VerdictOf(Report(Exited(0))), "none");
  EXPECT_TRUE(Waits(watch));
  // A retry of a Join by a member changes nothing either.
  EXPECT_OK(Of(Join(Launched(2, 1, 2))).status);
  Leave(ids[1]);
  EXPECT_OK(Of(watch).status);
  EXPECT_EQ(VerdictOf(Report(Exited(1))), "none");
}

TEST_F(MembershipEndingsTest, AnExitWithoutLeavingIsAFailure) {
  const Ticket zero = Join(Launched(2, 0, 1));
  Join(Launched(2, 1, 2));
  const Ticket watch = Watch({"job", Of(zero).assignment->epoch, Rank(0), Incarnation(1)});
  Report(Exited(1));
  EXPECT_EQ(VerdictOf(watch), "rank 1 ended: exit status 0");
}

TEST_F(MembershipEndingsTest, ARunThatIsOverSpoilsNotTheNextOfTheSameJob) {
  RunToTheEnd(kLaunch);
  const Ticket next = Join(Launched(2, 0, 1, kOther));
  // The launcher of the run before is slow to say how its ranks ended.
  EXPECT_OK(Of(Report(Exited(1))).status);
  EXPECT_OK(Of(Report(Killed(1))).status);
  EXPECT_TRUE(Waits(next));
  Join(Launched(2, 1, 2, kOther));
  const Ticket watch = Watch({"job", Of(next).assignment->epoch, Rank(0), Incarnation(1)});
  EXPECT_OK(Of(Report(Killed(1))).status);
  EXPECT_TRUE(Waits(watch));
}

TEST_F(MembershipEndingsTest, ALaunchIsToldTheVerdictOfItsOwnEpochAlone) {
  const std::vector<MemberId> ids = Run(2);
  Report(Noticed(ids[1], 1));
  EXPECT_EQ(VerdictOf(Report(Killed(0, kOther))), "none");
}

TEST_F(MembershipEndingsTest, ALaunchThatEndedInOneEpochCannotFormTheNext) {
  RunToTheEnd(kLaunch);
  Report(Exited(0));
  EXPECT_EQ(VerdictOf(Join(Launched(2, 1, 9))), "rank 0 ended before it joined: exit status 0");
}

TEST_F(MembershipEndingsTest, ARankOutsideTheWorldIsNotNeeded) {
  Report(Exited(3));
  const Ticket zero = Join(Launched(2, 0, 1));
  EXPECT_TRUE(Waits(zero));
  EXPECT_THAT(Of(Report(Exited(3))).status, StatusIs(Code::kInvalidArgument));
  Join(Launched(2, 1, 2));
  EXPECT_OK(Of(zero).status);
}

TEST_F(MembershipEndingsTest, EndingsAtTheLimitForgetTheOldest) {
  for (uint64_t i = 1; i <= limits::kMaxEndings; ++i) Report(Exited(1, LaunchId(i)));
  const FailureReport one_more = Exited(1, LaunchId(limits::kMaxEndings + 1));
  JoinRequest other = Launched(2, 0, 1, LaunchId(1));
  other.job = "another";
  EXPECT_TRUE(Waits(Join(other)));  // the same number in another job
  EXPECT_FALSE(Waits(Join(Launched(2, 0, 1, LaunchId(1)))));
  Report(one_more);
  EXPECT_FALSE(Waits(Join(Launched(2, 0, 2, LaunchId(2)))));
  EXPECT_TRUE(Waits(Join(Launched(2, 0, 3, LaunchId(1)))));
}

TEST_F(MembershipEndingsTest, WithoutALaunchNothingIsRemembered) {
  EXPECT_THAT(Of(Report(Ended(1))).status, StatusIs(Code::kNotFound));
  EXPECT_TRUE(Waits(Join(Worker(2, 0, 1))));
}

TEST_F(MembershipEndingsTest, AGatheringNamesWhoIsMissing) {
  EXPECT_THAT(membership_.GatheringOf("job"), StatusIs(Code::kNotFound));
  Join(Worker(4, 1, 1));
  ASSERT_OK_AND_ASSIGN(const Gathering gathering, membership_.GatheringOf("job"));
  EXPECT_EQ(gathering.world_size, 4);
  EXPECT_THAT(gathering.missing, ::testing::ElementsAre(Rank(0), Rank(2), Rank(3)));
  Report(Ended(0));
  EXPECT_THAT(membership_.GatheringOf("job"), StatusIs(Code::kFailedPrecondition));
  Run(2);
  EXPECT_THAT(membership_.GatheringOf("job"), StatusIs(Code::kFailedPrecondition));
}

}  // namespace
}  // namespace rz
