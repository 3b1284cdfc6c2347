#include "collectives/schedule/schedule.h"

#include <cstdint>
#include <vector>

#include "collectives/schedule/all_to_all.h"
#include "collectives/schedule/bruck.h"
#include "collectives/schedule/reduce.h"
#include "collectives/schedule/ring.h"
#include "collectives/schedule/schedule_cost.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(ScheduleTest, FormatIsThatOfThePlace) {
  Schedule schedule;
  schedule.wire_slots = 1;
  schedule.accumulator_slots = 1;
  EXPECT_EQ(schedule.FormatOf(Input(7)), Format::kWire);
  EXPECT_EQ(schedule.FormatOf(Output(7)), Format::kWire);
  EXPECT_EQ(schedule.FormatOf(Scratch(0)), Format::kWire);
  EXPECT_EQ(schedule.FormatOf(Scratch(1)), Format::kAccumulator);
}

TEST(ScheduleTest, AppendKeepsFormatsOfSlotsWhereWireSlotsGrow) {
  Schedule first;
  first.accumulator_slots = 1;
  first.rounds.push_back({{}, {{LocalKind::kWiden, 0, Scratch(0), Input(0), {}}}});
  Schedule second;
  second.wire_slots = 2;
  second.accumulator_slots = 1;
  second.rounds.push_back(
      {{{TransferKind::kRecv, 1, 0, Scratch(1)}, {TransferKind::kSend, 1, 0, Scratch(2)}}, {}});
  first.Append(second);
  EXPECT_EQ(first.wire_slots, 2);
  EXPECT_EQ(first.accumulator_slots, 1);
  ASSERT_EQ(first.rounds.size(), 2u);
  EXPECT_EQ(first.FormatOf(first.rounds[0].local[0].dst), Format::kAccumulator);
  EXPECT_EQ(first.FormatOf(first.rounds[1].transfers[0].ref), Format::kWire);
  EXPECT_EQ(first.FormatOf(first.rounds[1].transfers[1].ref), Format::kAccumulator);
}

TEST(ScheduleTest, StepsPrintForPeople) {
  const Schedule ring = RingReduceScatter(0, 3, Format::kWire);
  EXPECT_EQ(ToString(ring.rounds[0].transfers[0]), "recv block 1 from rank 2 into scratch[0]");
  EXPECT_EQ(ToString(ring.rounds[0].transfers[1]), "send block 2 to rank 1 from input[2]");
  EXPECT_EQ(ToString(ring.rounds[0].local[0]),
            "reduce block 1: scratch[0] <- scratch[0], input[1]");
}

TEST(ScheduleTest, RunsPrintForPeople) {
  const Schedule gather = BruckAllGather(3, 4, Place::kInput);
  EXPECT_EQ(ToString(gather.rounds[1].transfers[0]),
            "recv 2 blocks from 1 on from rank 1 into output[1]");
  const Schedule small = BruckAllReduce(0, 4, Format::kWire);
  EXPECT_EQ(ToString(small.rounds[2].transfers[1]),
            "send 2 blocks from 0 on to rank 2 from lane_slot[0]");
}

TEST(ScheduleTest, AppendKeepsWhatEitherHalfNeeds) {
  Schedule schedule = RingReduceScatter(0, 4, Format::kAccumulator);
  EXPECT_FALSE(schedule.unsliced);
  schedule.Append(BruckAllGather(0, 4, Place::kOutput));
  EXPECT_TRUE(schedule.unsliced);
  schedule.Append(BruckAllReduce(0, 4, Format::kWire));
  EXPECT_EQ(schedule.lane_slots, 4);
  schedule.Append(BruckAllToAll(0, 4));
  EXPECT_TRUE(schedule.equal_blocks);
}

TEST(ScheduleTest, LaneSlotsAreWire) {
  EXPECT_EQ(BruckAllReduce(0, 4, Format::kAccumulator).FormatOf(LaneSlot(3)), Format::kWire);
}

// Each figure is that of the rank for which it is largest: the first only widens, the others add.
TEST(ScheduleCostTest, CountsWhatTheBusiestRankDoes) {
  std::vector<Schedule> chain;
  for (int32_t rank = 0; rank < 3; ++rank) {
    chain.push_back(ChainReduce(rank, 3, 2, Format::kAccumulator));
  }
  EXPECT_EQ(CostOf(chain), (ScheduleCost{.hops = 2,
                                         .messages = 1,
                                         .accumulator_blocks = 1,
                                         .reduced_blocks = 1,
                                         .copied_blocks = 1}));
}

TEST(ScheduleCostTest, LaneSlotsCountAsAllBlocksOfALane) {
  std::vector<Schedule> gather;
  for (int32_t rank = 0; rank < 3; ++rank) {
    gather.push_back(BruckAllReduce(rank, 3, Format::kWire));
  }
  EXPECT_EQ(CostOf(gather).wire_blocks, 6);
}

}  // namespace
}  // namespace rz
