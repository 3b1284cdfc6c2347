#include "runtime/rendezvous/membership.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/rendezvous/membership_testing.h"
#include "runtime/rendezvous/membership_text.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::MembershipTest;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

TEST_F(MembershipTest, NobodyIsAnsweredBeforeAllHaveCome) {
  const Ticket one = Join(Worker(3, 2, 1));
  const Ticket two = Join(Worker(3, 0, 2));
  EXPECT_TRUE(Waits(one));
  EXPECT_TRUE(Waits(two));
  const Ticket three = Join(Worker(3, 1, 3));
  EXPECT_EQ(Of(one).assignment->rank, Rank(2));
  EXPECT_EQ(Of(two).assignment->rank, Rank(0));
  EXPECT_EQ(Of(three).assignment->rank, Rank(1));
  EXPECT_THAT(*Of(one).assignment->addresses, ElementsAre("address 2", "address 3", "address 1"));
  EXPECT_EQ(Of(one).assignment->epoch, Epoch(1));
}

TEST_F(MembershipTest, AutomaticRanksGoByHostThenLocalIndexThenArrival) {
  const auto worker = [](uint64_t incarnation, std::string host, std::optional<int64_t> local) {
    JoinRequest request = Worker(6, std::nullopt, incarnation);
    request.host = std::move(host);
    request.local_index = local;
    return request;
  };
  const Ticket wanted = Join(Worker(6, 2, 10));
  const Ticket b_late = Join(worker(11, "b", std::nullopt));
  const Ticket b_one = Join(worker(12, "b", 1));
  const Ticket a_first = Join(worker(13, "a", std::nullopt));
  const Ticket b_zero = Join(worker(14, "b", 0));
  const Ticket a_second = Join(worker(15, "a", std::nullopt));
  EXPECT_EQ(Of(wanted).assignment->rank, Rank(2));
  EXPECT_EQ(Of(a_first).assignment->rank, Rank(0));
  EXPECT_EQ(Of(a_second).assignment->rank, Rank(1));
  EXPECT_EQ(Of(b_zero).assignment->rank, Rank(3));
  EXPECT_EQ(Of(b_one).assignment->rank, Rank(4));
  EXPECT_EQ(Of(b_late).assignment->rank, Rank(5));
}

TEST_F(MembershipTest, AJoinIsIdempotentForOneIncarnation) {
  const Ticket lost = Join(Worker(2, 0, 1));
  const Ticket again = Join(Worker(2, 0, 1));
  EXPECT_THAT(Of(lost).status, StatusIs(Code::kAborted));
  EXPECT_TRUE(Waits(again));
  Join(Worker(2, 1, 2));
  EXPECT_EQ(Of(again).assignment->rank, Rank(0));
  const Ticket later = Join(Worker(2, 0, 1));
  EXPECT_EQ(Of(later).assignment->rank, Rank(0));
  EXPECT_EQ(Of(later).assignment->epoch, Of(again).assignment->epoch);
}

TEST_F(MembershipTest, WorldSizesAndRanksAtTheLimitsAndBeyond) {
  const int64_t max = limits::kMaxWorldSize;
  EXPECT_THAT(Of(Join(Worker(0, std::nullopt, 1))).status,
              StatusIs(Code::kInvalidArgument, HasSubstr("world size 0")));
  EXPECT_THAT(Of(Join(Worker(-1, std::nullopt, 1))).status, StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(Of(Join(Worker(max + 1, std::nullopt, 1))).status,
              StatusIs(Code::kInvalidArgument, HasSubstr("16385")));
  EXPECT_THAT(Of(Join(Worker(std::numeric_limits<int64_t>::max(), 0, 1))).status,
              StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(Of(Join(Worker(4, 4, 1))).status,
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("rank 4"), HasSubstr("of 4"))));
  EXPECT_THAT(Of(Join(Worker(4, -1, 1))).status, StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(Of(Join(Worker(4, 0, 0))).status, StatusIs(Code::kInvalidArgument));
  EXPECT_EQ(membership_.job_count(), 0);
  EXPECT_TRUE(Waits(Join(Worker(max, max - 1, 1))));
}

TEST_F(MembershipTest, DifferencesAreRefusedWithBothValues) {
  Join(Worker(2, 0, 1));
  EXPECT_THAT(
      Of(Join(Worker(3, 1, 2))).status,
      StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("world size 2"), HasSubstr("says 3"))));
  JoinRequest config = Worker(2, 1, 2);
  config.config_hash = 0x1f;
  EXPECT_THAT(Of(Join(config)).status,
              StatusIs(Code::kFailedPrecondition,
                       AllOf(HasSubstr("0000000000000000"), HasSubstr("000000000000001f"))));
  JoinRequest protocol = Worker(2, 1, 2);
  protocol.protocol_major = 2;
  protocol.protocol_minor = 7;
  EXPECT_THAT(Of(Join(protocol)).status,
              StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("1.1"), HasSubstr("2.7"))));
  JoinRequest newer = Worker(2, 1, 2);
  newer.protocol_minor = 7;
  EXPECT_OK(Of(Join(newer)).status);
}

TEST_F(MembershipTest, ARankHeldByALiveProcessIsRefusedAndTheHolderUnharmed) {
  const Ticket holder = Join(Worker(2, 0, 1));
  EXPECT_THAT(Of(Join(Worker(2, 0, 2))).status,
              StatusIs(Code::kAlreadyExists, AllOf(HasSubstr("rank 0"), HasSubstr("host"))));
  EXPECT_TRUE(Waits(holder));
  Join(Worker(2, 1, 3));
  EXPECT_OK(Of(holder).status);
  EXPECT_THAT(Of(Join(Worker(2, 0, 4))).status, StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(Of(Join(Worker(2, std::nullopt, 4))).status, StatusIs(Code::kAlreadyExists));
}

TEST_F(MembershipTest, AWaiterThatGoesAwayFreesItsRank) {
  const Ticket gone = Join(Worker(2, 0, 1));
  Join(Worker(2, 1, 2));
  // Complete by now: begin another job to wait in.
  JoinRequest request = Worker(2, 0, 3);
  request.job = "other";
  const Ticket waiting = Join(request);
  Cancel(waiting);
  EXPECT_THAT(Of(waiting).status, StatusIs(Code::kCancelled));
  request.incarnation = Incarnation(4);
  request.world_size = 3;  // nobody is left who said otherwise
  EXPECT_TRUE(Waits(Join(request)));
  EXPECT_OK(Of(gone).status);
  Cancel(waiting);
}

TEST_F(MembershipTest, ATimeOutTellsAllWhoIsMissingAndWhoWasRefused) {
  JoinRequest early = Worker(9, 1, 1);
  early.timeout = absl::Seconds(60);
  const Ticket first = Join(early);
  const Ticket second = Join(Worker(9, 3, 2));
  Join(Worker(8, 4, 3));
  EXPECT_EQ(membership_.NextDeadline(), now_ + absl::Seconds(60));
  Pass(absl::Seconds(59));
  EXPECT_TRUE(Waits(first));
  Pass(absl::Seconds(1));
  for (Ticket ticket : {first, second}) {
    EXPECT_THAT(Of(ticket).status, StatusIs(Code::kDeadlineExceeded,
                                            AllOf(HasSubstr("2 of 9 ranks"), HasSubstr("within 1m"),
                                                  HasSubstr("missing ranks 0, 2, 4-8"),
                                                  HasSubstr("refused"), HasSubstr("says 8"))));
  }
  EXPECT_EQ(membership_.NextDeadline(), absl::InfiniteDuration());
  EXPECT_TRUE(Waits(Join(Worker(2, 0, 1))));
}

TEST_F(MembershipTest, ARetryDoesNotProlongTheWait) {
  Join(Worker(2, 0, 1));
  Pass(absl::Seconds(200));
  const Ticket again = Join(Worker(2, 0, 1));
  Pass(absl::Seconds(100));
  EXPECT_THAT(Of(again).status, StatusIs(Code::kDeadlineExceeded));
}

TEST_F(MembershipTest, TheFirstFailureIsToldToAllAndStays) {
  const std::vector<MemberId> ids = Run(3);
  const Ticket waiting = Barrier(ids[0]);
  const Ticket report = Report(Ended(2, "killed by signal 9"));
  EXPECT_EQ(VerdictOf(report), "rank 2 ended: killed by signal 9");
  for (Ticket watch : watches_) EXPECT_EQ(VerdictOf(watch), "rank 2 ended: killed by signal 9");
  EXPECT_THAT(Of(waiting).status, StatusIs(Code::kUnavailable, VerdictOf(report)));
  EXPECT_EQ(VerdictOf(waiting), VerdictOf(report));
  // Later causes and requests of that epoch get the first one.
  EXPECT_EQ(VerdictOf(Report(Ended(1))), VerdictOf(report));
  EXPECT_EQ(VerdictOf(Report(Noticed(ids[0], 1))), VerdictOf(report));
  EXPECT_EQ(VerdictOf(Watch(ids[1])), VerdictOf(report));
  EXPECT_THAT(Of(Barrier(ids[1])).status, StatusIs(Code::kUnavailable, VerdictOf(report)));
  EXPECT_OK(Of(Leave(ids[1])).status);
}

TEST_F(MembershipTest, ARankIsDoneOnceItHasLeftOrHasBeenToldOfTheFailure) {
  const std::vector<MemberId> ids = Run(3);
  Epoch epoch = ids[0].epoch;
  const auto not_done = [&] { return membership_.NotDone("job", epoch); };
  EXPECT_THAT(not_done(), ElementsAre(Rank(0), Rank(1), Rank(2)));
  Leave(ids[1]);
  EXPECT_THAT(not_done(), ElementsAre(Rank(0), Rank(2)));
  Report(Noticed(ids[0], 0));
  EXPECT_THAT(not_done(), IsEmpty());

  // Ranks that have joined, and have not asked for a verdict yet.
  Join(Worker(2, 0, 5));
  epoch = Of(Join(Worker(2, 1, 6))).assignment->epoch;
  Report(Ended(0));
  EXPECT_THAT(not_done(), ElementsAre(Rank(0), Rank(1)));
  Watch({"job", epoch, Rank(1), Incarnation(6)});
  EXPECT_THAT(not_done(), ElementsAre(Rank(0)));
}

TEST_F(MembershipTest, AFailureBeforeAllHaveComeLetsTheWaitersGo) {
  const Ticket waiting = Join(Worker(3, 0, 1));
  Report(Ended(2));
  EXPECT_THAT(Of(waiting).status,
              StatusIs(Code::kUnavailable, "rank 2 ended before it joined: exit status 1"));
  EXPECT_TRUE(Of(waiting).verdict.has_value());
}

TEST_F(MembershipTest, ABrokenWatchIsAFailureUnlessSomebodyKnowsBetter) {
  std::vector<MemberId> ids = Run(3);
  Cancel(watches_[2]);
  EXPECT_EQ(membership_.NextDeadline(), now_ + limits::kSuspicionGrace);
  EXPECT_TRUE(Waits(watches_[0]));
  Report(Ended(2, "killed by signal 9"));
  EXPECT_EQ(VerdictOf(watches_[0]), "rank 2 ended: killed by signal 9");

  watches_.clear();
  ids = Run(3);
  Cancel(watches_[1]);
  Cancel(watches_[2]);
  Pass(limits::kSuspicionGrace);
  EXPECT_EQ(VerdictOf(watches_[0]), "rank 1: connection to the rendezvous lost");
}

TEST_F(MembershipTest, AWatchThatComesBackInTimeClearsItsRank) {
  const std::vector<MemberId> ids = Run(2);
  Cancel(watches_[1]);
  Pass(limits::kSuspicionGrace - absl::Milliseconds(1));
  const Ticket again = Watch(ids[1]);
  Pass(absl::Hours(1));
  EXPECT_TRUE(Waits(watches_[0]));
  EXPECT_TRUE(Waits(again));
  const Ticket newest = Watch(ids[1]);
  EXPECT_THAT(Of(again).status, StatusIs(Code::kAborted));
  EXPECT_TRUE(Waits(newest));
}

TEST_F(MembershipTest, AMemberThatNeverWatchesIsSuspected) {
  const Ticket zero = Join(Worker(2, 0, 100));
  Join(Worker(2, 1, 101));
  const Ticket watch = Watch({"job", Of(zero).assignment->epoch, Rank(0), Incarnation(100)});
  Pass(limits::kWatchDue);
  EXPECT_TRUE(Waits(watch));
  Pass(limits::kSuspicionGrace);
  EXPECT_EQ(VerdictOf(watch), "rank 1: connection to the rendezvous lost");
}

TEST_F(MembershipTest, APeersWordWaitsForBetterKnowledge) {
  std::vector<MemberId> ids = Run(3);
  const Ticket report = Report(Noticed(ids[0], 2));
  EXPECT_OK(Of(report).status);
  EXPECT_EQ(VerdictOf(report), "none");
  Report(Noticed(ids[1], 2));
  Pass(limits::kSuspicionGrace);
  EXPECT_EQ(VerdictOf(watches_[1]), "rank 2 failed: link broke (noticed by rank 0)");

  watches_.clear();
  ids = Run(3);
  Report(Noticed(ids[0], 2));
  Report(Noticed(ids[1], 1));
  EXPECT_EQ(VerdictOf(watches_[0]), "rank 1 failed: link broke");
}

TEST_F(MembershipTest, ReportsThatMakeNoSenseChangeNothing) {
  const std::vector<MemberId> ids = Run(2);
  EXPECT_THAT(Of(Report(Ended(2))).status, StatusIs(Code::kInvalidArgument));
  FailureReport self_about_other = Noticed(ids[0], 1);
  self_about_other.kind = FailureKind::kSelf;
  EXPECT_THAT(Of(Report(self_about_other)).status, StatusIs(Code::kInvalidArgument));
  FailureReport anonymous = Noticed(ids[0], 1);
  anonymous.reporter.reset();
  EXPECT_THAT(Of(Report(anonymous)).status, StatusIs(Code::kInvalidArgument));
  FailureReport impostor = Noticed(ids[0], 0);
  impostor.reporter->incarnation = Incarnation(7);
  EXPECT_THAT(Of(Report(impostor)).status, StatusIs(Code::kAborted));
  FailureReport elsewhere = Ended(0);
  elsewhere.job = "nowhere";
  EXPECT_THAT(Of(Report(elsewhere)).status, StatusIs(Code::kNotFound));
  Pass(absl::Hours(1));
  EXPECT_TRUE(Waits(watches_[0]));
}

TEST_F(MembershipTest, LeavingIsNoFailureAndEndsTheJobWithTheLastOne) {
  std::vector<MemberId> ids = Run(2);
  EXPECT_OK(Of(Leave(ids[0])).status);
  EXPECT_OK(Of(watches_[0]).status);
  EXPECT_EQ(VerdictOf(watches_[0]), "none");
  Cancel(watches_[0]);
  EXPECT_OK(Of(Leave(ids[0])).status);
  EXPECT_THAT(Of(Watch(ids[0])).status, StatusIs(Code::kFailedPrecondition));
  EXPECT_THAT(Of(Join(Worker(2, 0, 100))).status, StatusIs(Code::kFailedPrecondition));
  Pass(absl::Hours(1));
  EXPECT_TRUE(Waits(watches_[1]));
  EXPECT_OK(Of(Leave(ids[1])).status);
  EXPECT_OK(Of(watches_[1]).status);
  EXPECT_EQ(membership_.unanswered_count(), 0);
  EXPECT_OK(Of(Leave(ids[1])).status);
}

TEST_F(MembershipTest, EpochsGrowAndOldOnesAreRejected) {
  const std::vector<MemberId> old = Run(2);
  Report(Ended(0));
  const std::vector<MemberId> middle = Run(2);
  EXPECT_GT(middle[0].epoch, old[0].epoch);
  Report(Ended(1));
  const std::vector<MemberId> current = Run(2);
  EXPECT_GT(current[0].epoch, middle[0].epoch);
  for (const auto& status : {Of(Watch(old[0])).status, Of(Barrier(old[0])).status,
                             Of(Leave(old[0])).status, Of(Report(Noticed(old[0], 0))).status}) {
    EXPECT_THAT(status, StatusIs(Code::kFailedPrecondition,
                                 AllOf(HasSubstr("epoch 1"), HasSubstr("epoch 3"))));
  }
  EXPECT_EQ(VerdictOf(Watch(middle[0])), "rank 1 ended: exit status 1");
  EXPECT_TRUE(Waits(watches_.back()));
}

TEST_F(MembershipTest, JobsDoNotKnowEachOther) {
  Run(1);
  JoinRequest other = Worker(2, 0, 100);
  other.job = "other";
  const Ticket waiting = Join(other);
  Report(Ended(0));
  EXPECT_TRUE(Waits(waiting));
  EXPECT_EQ(VerdictOf(watches_[0]), "rank 0 ended: exit status 1");
}

TEST_F(MembershipTest, JobsAtTheLimitEvictOnlyEndedOnes) {
  Run(1);
  Report(Ended(0));
  for (size_t i = 1; i < limits::kMaxJobs; ++i) {
    JoinRequest request = Worker(2, 0, i);
    request.job = absl::StrCat("job-", i);
    EXPECT_TRUE(Waits(Join(request)));
  }
  JoinRequest one_more = Worker(2, 0, 1);
  one_more.job = "one-more";
  EXPECT_TRUE(Waits(Join(one_more)));  // in the place of the ended one
  one_more.job = "one-too-many";
  EXPECT_THAT(Of(Join(one_more)).status, StatusIs(Code::kResourceExhausted));
  EXPECT_EQ(membership_.job_count(), limits::kMaxJobs);
}

TEST_F(MembershipTest, AddressesAreForMembers) {
  const std::vector<MemberId> ids = Run(2);
  ASSERT_OK_AND_ASSIGN(const auto addresses, membership_.AddressesFor(ids[1]));
  EXPECT_THAT(*addresses, ElementsAre("address 100", "address 101"));
  MemberId stranger = ids[1];
  stranger.incarnation = Incarnation(5);
  EXPECT_THAT(membership_.AddressesFor(stranger), StatusIs(Code::kAborted));
  stranger.rank = Rank(2);
  EXPECT_THAT(membership_.AddressesFor(stranger), StatusIs(Code::kInvalidArgument));
}

using MembershipBarrierTest = MembershipTest;

TEST_F(MembershipBarrierTest, OpensWhenAllHaveArrivedAgainAndAgain) {
  const std::vector<MemberId> ids = Run(3);
  for (int pass = 0; pass < 3; ++pass) {
    const Ticket zero = Barrier(ids[0], pass), two = Barrier(ids[2], pass);
    EXPECT_TRUE(Waits(zero));
    const Ticket one = Barrier(ids[1], pass);
    for (Ticket ticket : {zero, one, two}) EXPECT_OK(Of(ticket).status);
  }
  EXPECT_EQ(membership_.unanswered_count(), 3);  // the watches
}

TEST_F(MembershipBarrierTest, ARetryOfAPassThatWasCompletedIsOk) {
  const std::vector<MemberId> ids = Run(2);
  Barrier(ids[0]);
  Barrier(ids[1]);
  EXPECT_OK(Of(Barrier(ids[0], 0)).status);
  const Ticket next = Barrier(ids[0], 1);
  const Ticket again = Barrier(ids[0], 1);
  EXPECT_THAT(Of(next).status, StatusIs(Code::kAborted));
  EXPECT_OK(Of(Barrier(ids[1], 1)).status);
  EXPECT_OK(Of(again).status);
}

TEST_F(MembershipBarrierTest, OtherParticipantsFailEverybodyAtOnce) {
  const std::vector<MemberId> ids = Run(4);
  const Ticket zero = Barrier(ids[0], 0, {Rank(0), Rank(1), Rank(3)});
  const Ticket one = Barrier(ids[1], 0, {Rank(0), Rank(1)});
  for (Ticket ticket : {zero, one}) {
    EXPECT_THAT(Of(ticket).status,
                StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("rank 1 wants to meet ranks 0-1"),
                                                       HasSubstr("meet ranks 0-1, 3"))));
  }
  // Who comes later must not wait for those who have given up.
  EXPECT_EQ(Of(Barrier(ids[3], 0, {Rank(0), Rank(1), Rank(3)})).status, Of(zero).status);
}

TEST_F(MembershipBarrierTest, AWrongCounterFailsEverybodyAtOnce) {
  const std::vector<MemberId> ids = Run(2);
  const Ticket zero = Barrier(ids[0], 0);
  const Ticket one = Barrier(ids[1], 2);
  for (Ticket ticket : {zero, one}) {
    EXPECT_THAT(Of(ticket).status,
                StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("rank 1 has passed it 2 times"),
                                                       HasSubstr("others 0 times"))));
  }
}

TEST_F(MembershipBarrierTest, ParticipantsThatMakeNoSenseAreRefusedAlone) {
  const std::vector<MemberId> ids = Run(2);
  const Ticket waiting = Barrier(ids[0]);
  EXPECT_THAT(Of(Barrier(ids[1], 0, {Rank(0)})).status,
              StatusIs(Code::kInvalidArgument, HasSubstr("not among")));
  EXPECT_THAT(Of(Barrier(ids[1], 0, {Rank(1), Rank(2)})).status, StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(Of(Barrier(ids[1], 0, {Rank(1), Rank(1)})).status, StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(Of(Barrier(ids[1], 0, {Rank(1), Rank(0)})).status, StatusIs(Code::kInvalidArgument));
  EXPECT_TRUE(Waits(waiting));
  Barrier(ids[1]);
  EXPECT_OK(Of(waiting).status);
}

TEST_F(MembershipBarrierTest, ATimeOutListsTheMissingAndStays) {
  const std::vector<MemberId> ids = Run(4);
  const Ticket one = Barrier(ids[1], 0, {}, absl::Seconds(5));
  Pass(absl::Seconds(4));
  const Ticket two = Barrier(ids[2], 0, {}, absl::Seconds(50));
  Pass(absl::Seconds(1));
  for (Ticket ticket : {one, two}) {
    EXPECT_THAT(Of(ticket).status,
                StatusIs(Code::kDeadlineExceeded, HasSubstr("missing ranks 0, 3")));
  }
  EXPECT_THAT(Of(Barrier(ids[0])).status, StatusIs(Code::kDeadlineExceeded));
}

TEST_F(MembershipBarrierTest, AParticipantThatLeavesFailsIt) {
  const std::vector<MemberId> ids = Run(3);
  const Ticket pair = Barrier(ids[0], 0, {Rank(0), Rank(1)});
  Leave(ids[2]);
  EXPECT_TRUE(Waits(pair));
  Leave(ids[1]);
  EXPECT_THAT(Of(pair).status, StatusIs(Code::kFailedPrecondition, HasSubstr("rank 1 has left")));
}

TEST_F(MembershipBarrierTest, WhoGoesAwayHasNotArrived) {
  const std::vector<MemberId> ids = Run(2);
  const Ticket gone = Barrier(ids[0]);
  Cancel(gone);
  EXPECT_THAT(Of(gone).status, StatusIs(Code::kCancelled));
  const Ticket one = Barrier(ids[1]);
  EXPECT_TRUE(Waits(one));
  Barrier(ids[0]);
  EXPECT_OK(Of(one).status);
}

TEST_F(MembershipBarrierTest, IdsAtTheLimitAndBeyond) {
  const std::vector<MemberId> ids = Run(1);
  for (size_t i = 0; i <= limits::kMaxBarrierIds; ++i) {
    const Replies replies = membership_.Barrier(
        {ids[0], absl::StrCat("id ", i), 0, {}, absl::Seconds(1)}, 1'000'000 + i, now_);
    ASSERT_THAT(replies, SizeIs(1));
    EXPECT_EQ(replies[0].status.code(),
              i < limits::kMaxBarrierIds ? Code::kOk : Code::kResourceExhausted);
  }
}

TEST(FormatRanksTest, RunsAndLimits) {
  const auto ranks = [](std::vector<int> values) {
    std::vector<Rank> list;
    for (int value : values) list.push_back(Rank(value));
    return FormatRanks(list);
  };
  EXPECT_EQ(ranks({}), "no ranks");
  EXPECT_EQ(ranks({3}), "rank 3");
  EXPECT_EQ(ranks({2, 5, 6, 7}), "ranks 2, 5-7");
  EXPECT_EQ(ranks({0, 1}), "ranks 0-1");
  std::vector<int> odd;
  for (size_t i = 0; i < limits::kMaxListedRuns; ++i) odd.push_back(static_cast<int>(2 * i + 1));
  EXPECT_THAT(ranks(odd), ::testing::Not(HasSubstr("more")));
  odd.push_back(101);
  odd.push_back(102);
  EXPECT_THAT(ranks(odd), ::testing::EndsWith(", 31 and 2 more"));
}

}  // namespace
}  // namespace rz
