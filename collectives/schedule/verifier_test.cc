#include "collectives/schedule/verifier.h"

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectives/schedule/all_to_all.h"
#include "collectives/schedule/barrier.h"
#include "collectives/schedule/bruck.h"
#include "collectives/schedule/gather.h"
#include "collectives/schedule/halving.h"
#include "collectives/schedule/pairwise.h"
#include "collectives/schedule/ring.h"
#include "collectives/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Schedule> ForAll(int32_t world, const std::function<Schedule(int32_t)>& schedule) {
  std::vector<Schedule> schedules;
  for (int32_t rank = 0; rank < world; ++rank) schedules.push_back(schedule(rank));
  return schedules;
}

std::vector<Schedule> Ring(int32_t world, Format partials) {
  return ForAll(world, [&](int32_t r) { return RingReduceScatter(r, world, partials); });
}

std::vector<Schedule> Pairwise(int32_t world, Format partials) {
  return ForAll(world, [&](int32_t r) { return PairwiseReduceScatter(r, world, partials); });
}

// What VerifySchedules says after `damage` to the schedules of a ring of four.
absl::Status VerifyDamagedRing(const std::function<void(std::vector<Schedule>&)>& damage) {
  std::vector<Schedule> schedules = Ring(4, Format::kAccumulator);
  const Claim claim{.goal = Goal::kReduceScatter};
  EXPECT_OK(VerifySchedules(schedules, claim));
  damage(schedules);
  return VerifySchedules(schedules, claim);
}

TEST(VerifierTest, SwappedChunkIsCaught) {
  const absl::Status status = VerifyDamagedRing(
      [](std::vector<Schedule>& schedules) { schedules[2].rounds[1].transfers[1].block = 3; });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("rank 2"), HasSubstr("should hold block"))));
}

TEST(VerifierTest, ReceiveOfAnotherBlockIsCaught) {
  const absl::Status status = VerifyDamagedRing(
      [](std::vector<Schedule>& schedules) { schedules[2].rounds[1].transfers[0].block = 3; });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("its message is another one")));
}

TEST(VerifierTest, MissingReceiveIsADeadlock) {
  const absl::Status status = VerifyDamagedRing([](std::vector<Schedule>& schedules) {
    schedules[3].rounds[3].transfers.erase(schedules[3].rounds[3].transfers.begin());
    schedules[3].rounds[3].local.clear();
  });
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deadlock: rank 2")));
}

TEST(VerifierTest, SendsBeforeReceivesAllRoundAreADeadlockWhenSendsWait) {
  // Each rank sends first and receives in the next round: fine as long as sends are buffered.
  const std::vector<Schedule> schedules = ForAll(2, [](int32_t r) {
    Schedule schedule;
    schedule.rounds.push_back({{{TransferKind::kSend, 1 - r, r, Input(r)}}, {}});
    schedule.rounds.push_back({{{TransferKind::kRecv, 1 - r, 1 - r, Output(1 - r)}},
                               {{LocalKind::kCopy, r, Output(r), Input(r), {}}}});
    return schedule;
  });
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kAllGather}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deadlock")));
}

TEST(VerifierTest, WrongOrderOfSummationIsCaught) {
  std::vector<Schedule> schedules = Pairwise(4, Format::kAccumulator);
  LocalStep& first = schedules[1].rounds[0].local[0];
  std::swap(first.a, first.b);
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kReduceScatter}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rank 1"), HasSubstr("ranks 3, 2, 0, 1"))));
}

TEST(VerifierTest, MissingAddendIsCaught) {
  std::vector<Schedule> schedules = Pairwise(5, Format::kAccumulator);
  schedules[0].rounds[0].local.erase(schedules[0].rounds[0].local.begin() + 1);
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kReduceScatter}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("claimed was")));
}

TEST(VerifierTest, AddendTakenTwiceIsCaught) {
  const absl::Status status = VerifyDamagedRing([](std::vector<Schedule>& schedules) {
    std::vector<LocalStep>& local = schedules[1].rounds[1].local;
    local.push_back(local.front());
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("claimed was")));
}

TEST(VerifierTest, OverlappingSlotIsCaught) {
  const absl::Status status = VerifyDamagedRing([](std::vector<Schedule>& schedules) {
    // Receives into the slot that the same round sends from.
    schedules[0].rounds[2].transfers[0].ref = schedules[0].rounds[2].transfers[1].ref;
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("rank 0"), HasSubstr("another transfer"))));
}

TEST(VerifierTest, RoundingAtEveryHopIsNotOneRounding) {
  EXPECT_THAT(VerifySchedules(Ring(4, Format::kWire), {.goal = Goal::kReduceScatter}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("3 roundings")));
}

TEST(VerifierTest, ReadBeforeWriteIsCaught) {
  const absl::Status status = VerifyDamagedRing([](std::vector<Schedule>& schedules) {
    schedules[0].rounds[0].local.clear();  // the own input is never widened into its slot
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("read before it was written")));
}

TEST(VerifierTest, WriteOutsideTheOutputIsCaught) {
  const absl::Status status = VerifyDamagedRing(
      [](std::vector<Schedule>& schedules) { schedules[0].rounds[1].local[0].dst = Output(2); });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("output[2]")));
}

TEST(VerifierTest, SlotBeyondTheDeclaredScratchIsCaught) {
  const absl::Status status = VerifyDamagedRing(
      [](std::vector<Schedule>& schedules) { schedules[3].accumulator_slots = 1; });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("scratch[1] does not exist")));
}

TEST(VerifierTest, InputOverwrittenTooEarlyInPlaceIsCaught) {
  // Right out of place: the output takes a foreign block before the own input of it was sent.
  const std::vector<Schedule> schedules = ForAll(2, [](int32_t r) {
    Schedule schedule = PairwiseReduceScatter(r, 2, Format::kAccumulator);
    Schedule gather = RingAllGather(r, 2, Place::kOutput);
    std::swap(schedule.rounds, gather.rounds);
    gather.Append(schedule);
    return gather;
  });
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kAllReduce, .in_place = true}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(VerifierTest, BarrierThatLeavesTooEarlyIsCaught) {
  std::vector<Schedule> schedules = ForAll(5, [](int32_t r) { return DisseminationBarrier(r, 5); });
  for (Schedule& schedule : schedules) schedule.rounds.pop_back();
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kBarrier}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("may leave")));
}

TEST(VerifierTest, UnmatchedEagerSendIsCaught) {
  std::vector<Schedule> schedules = ForAll(2, [](int32_t) { return Schedule{}; });
  schedules[0].rounds.push_back({{{TransferKind::kSignal, 1, 0, {}}}, {}});
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kBarrier, .sends = Sends::kEager}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("nobody receives")));
}

TEST(VerifierTest, RunOfAnotherLengthIsCaught) {
  std::vector<Schedule> schedules = ForAll(6, [](int32_t r) { return HalvingReduceScatter(r, 6); });
  Transfer& receive = schedules[4].rounds[1].transfers[0];
  ASSERT_EQ(receive.blocks, 3);
  receive.blocks = 2;
  EXPECT_THAT(VerifySchedules(schedules, {.order = Order::kAny, .most_roundings = 3}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rank 4"), HasSubstr("its message is another one: send 3 "
                                                            "blocks from 4 on to rank 4"))));
}

TEST(VerifierTest, MoreRoundingsThanClaimedAreCaught) {
  const std::vector<Schedule> schedules =
      ForAll(5, [](int32_t r) { return HalvingReduceScatter(r, 5); });
  EXPECT_THAT(VerifySchedules(schedules, {.order = Order::kAny, .most_roundings = 2}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("at most 2 roundings")));
}

TEST(VerifierTest, AnotherOrderIsNotTheCanonicalOne) {
  const std::vector<Schedule> schedules =
      ForAll(4, [](int32_t r) { return HalvingReduceScatter(r, 4); });
  EXPECT_THAT(VerifySchedules(schedules, {.partials = Format::kWire}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("claimed was")));
}

TEST(VerifierTest, AddendTakenTwiceIsCaughtInAnyOrderToo) {
  std::vector<Schedule> schedules = ForAll(4, [](int32_t r) { return HalvingReduceScatter(r, 4); });
  std::vector<LocalStep>& local = schedules[2].rounds[1].local;
  LocalStep again = local[0];
  again.b = local[0].dst;
  again.b_is_input = false;
  local.push_back(again);
  EXPECT_THAT(VerifySchedules(schedules, {.order = Order::kAny, .most_roundings = 64}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("every rank once")));
}

TEST(VerifierTest, RunOfSlicedBlocksIsCaught) {
  std::vector<Schedule> schedules =
      ForAll(4, [](int32_t r) { return BruckAllGather(r, 4, Place::kInput); });
  schedules[3].unsliced = false;
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kAllGather}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rank 3"), HasSubstr("do not stand one after another"))));
}

TEST(VerifierTest, RunThatWrapsIsCaught) {
  std::vector<Schedule> schedules =
      ForAll(4, [](int32_t r) { return BruckAllGather(r, 4, Place::kInput); });
  std::vector<Transfer>& transfers = schedules[3].rounds[1].transfers;
  ASSERT_EQ(transfers.size(), 3u);  // receives 1 and 2 together, sends 3 and 0 apart
  transfers.pop_back();
  transfers.back().blocks = 2;
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kAllGather}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("output[4]")));
}

TEST(VerifierTest, PaddedRunIsNotAPackedOne) {
  // Two blocks leave as whole slots and arrive as blocks that have no padding between them.
  std::vector<Schedule> schedules = ForAll(2, [](int32_t r) {
    Schedule schedule;
    schedule.unsliced = true;
    if (r == 0) {
      schedule.wire_slots = 2;
      schedule.rounds.push_back({{},
                                 {{LocalKind::kCopy, 0, Scratch(0), Input(0), {}},
                                  {LocalKind::kCopy, 1, Scratch(1), Input(1), {}}}});
      schedule.rounds.push_back({{{TransferKind::kSend, 1, 0, Scratch(0), 2}}, {}});
    } else {
      schedule.rounds.push_back({{{TransferKind::kRecv, 0, 0, Output(0), 2}}, {}});
    }
    return schedule;
  });
  EXPECT_THAT(
      VerifySchedules(schedules, {.goal = Goal::kBroadcast}),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("its message is another one")));
}

TEST(VerifierTest, RunAcrossFormatsIsCaught) {
  // Both sides agree on a wire slot followed by an accumulator slot, which have two lengths.
  const std::vector<Schedule> schedules = ForAll(2, [](int32_t r) {
    Schedule schedule;
    schedule.wire_slots = 1;
    schedule.accumulator_slots = 1;
    if (r == 0) {
      schedule.rounds.push_back({{},
                                 {{LocalKind::kCopy, 0, Scratch(0), Input(0), {}},
                                  {LocalKind::kWiden, 1, Scratch(1), Input(1), {}}}});
    }
    const TransferKind kind = r == 0 ? TransferKind::kSend : TransferKind::kRecv;
    schedule.rounds.push_back({{{kind, 1 - r, 0, Scratch(0), 2}}, {}});
    return schedule;
  });
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kAllReduce}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("two formats")));
}

TEST(VerifierTest, InputAddedUnmultipliedIsCaught) {
  // A premul_sum would add rank 0's input as it was given.
  std::vector<Schedule> schedules = Ring(4, Format::kWire);
  LocalStep& first = schedules[1].rounds[0].local[0];
  ASSERT_TRUE(first.a_is_input);
  first.a_is_input = false;
  EXPECT_THAT(VerifySchedules(schedules, {.partials = Format::kWire}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rank 1"), HasSubstr("a is not taken for an input"))));
}

TEST(VerifierTest, PartialSumMultipliedAgainIsCaught) {
  std::vector<Schedule> schedules = Ring(4, Format::kWire);
  schedules[1].rounds[1].local[0].a_is_input = true;
  EXPECT_THAT(VerifySchedules(schedules, {.partials = Format::kWire}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rank 1"), HasSubstr("a is taken for an input"))));
}

TEST(VerifierTest, SwappedBlocksOfAnAllToAllAreCaught) {
  std::vector<Schedule> schedules = ForAll(3, [](int32_t r) { return PairwiseAllToAll(r, 3); });
  std::vector<Transfer>& transfers = schedules[0].rounds[0].transfers;
  std::swap(transfers[2].peer, transfers[3].peer);
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kAllToAll}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("does not belong into")));
}

TEST(VerifierTest, ScratchOfUnequalBlocksIsCaught) {
  std::vector<Schedule> schedules = ForAll(3, [](int32_t r) { return BruckAllToAll(r, 3); });
  for (Schedule& schedule : schedules) schedule.equal_blocks = false;
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kAllToAll}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("need not be equal")));
}

TEST(VerifierTest, OutputOfAnotherRankThanTheRootIsCaught) {
  std::vector<Schedule> schedules = ForAll(3, [](int32_t r) { return DirectGather(r, 3, 1); });
  schedules[2].rounds.push_back({{}, {{LocalKind::kCopy, 2, Output(2), Input(2), {}}}});
  EXPECT_THAT(VerifySchedules(schedules, {.goal = Goal::kGather, .root = 1}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rank 2"), HasSubstr("does not belong into output[2]"))));
}

}  // namespace
}  // namespace rz
