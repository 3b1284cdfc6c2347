#include "collectives/schedule/verifier.h"

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectives/schedule/barrier.h"
#include "collectives/schedule/broadcast.h"
#include "collectives/schedule/pairwise.h"
#include "collectives/schedule/ring.h"
#include "collectives/schedule/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int32_t kLargestWorld = 64;

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

// all_reduce as plans build it: reduce_scatter, then all_gather of what it left in the output.
std::vector<Schedule> WithAllGather(std::vector<Schedule> schedules) {
  const int32_t world = static_cast<int32_t>(schedules.size());
  for (int32_t r = 0; r < world; ++r) {
    schedules[r].Append(RingAllGather(r, world, Place::kOutput));
  }
  return schedules;
}

// What VerifySchedules says after `damage` to the schedules of a ring of four.
absl::Status VerifyDamagedRing(const std::function<void(std::vector<Schedule>&)>& damage) {
  std::vector<Schedule> schedules = Ring(4, Format::kAccumulator);
  const Claim claim{.goal = Goal::kReduceScatter};
  EXPECT_OK(VerifySchedules(schedules, claim));
  damage(schedules);
  return VerifySchedules(schedules, claim);
}

TEST(VerifierTest, EveryReductionIsRightInEveryWorld) {
  for (int32_t world = 1; world <= kLargestWorld; ++world) {
    for (Format partials : {Format::kWire, Format::kAccumulator}) {
      for (bool in_place : {false, true}) {
        for (const auto& algorithm : {Ring, Pairwise}) {
          const std::vector<Schedule> schedules = algorithm(world, partials);
          Claim claim{.goal = Goal::kReduceScatter, .in_place = in_place, .partials = partials};
          ASSERT_THAT(VerifySchedules(schedules, claim), IsOk());
          claim.goal = Goal::kAllReduce;
          ASSERT_THAT(VerifySchedules(WithAllGather(schedules), claim), IsOk());
        }
      }
    }
  }
}

TEST(VerifierTest, AllGatherIsRightInEveryWorld) {
  for (int32_t world = 1; world <= kLargestWorld; ++world) {
    const std::vector<Schedule> schedules =
        ForAll(world, [&](int32_t r) { return RingAllGather(r, world, Place::kInput); });
    for (bool in_place : {false, true}) {
      ASSERT_THAT(VerifySchedules(schedules, {.goal = Goal::kAllGather, .in_place = in_place}),
                  IsOk());
    }
  }
}

TEST(VerifierTest, BroadcastIsRightForEveryRootInEveryWorld) {
  for (int32_t world = 1; world <= kLargestWorld; ++world) {
    for (int32_t root = 0; root < world; ++root) {
      for (const auto& algorithm : {BinomialBroadcast, ChainBroadcast}) {
        const std::vector<Schedule> schedules =
            ForAll(world, [&](int32_t r) { return algorithm(r, world, root); });
        ASSERT_THAT(VerifySchedules(schedules, {.goal = Goal::kBroadcast, .root = root}), IsOk());
      }
    }
  }
}

TEST(VerifierTest, BarrierIsRightInEveryWorld) {
  for (int32_t world = 1; world <= kLargestWorld; ++world) {
    const std::vector<Schedule> schedules =
        ForAll(world, [&](int32_t r) { return DisseminationBarrier(r, world); });
    ASSERT_THAT(VerifySchedules(schedules, {.goal = Goal::kBarrier}), IsOk());
  }
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

}  // namespace
}  // namespace rz
