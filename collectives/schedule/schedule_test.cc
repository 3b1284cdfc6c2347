#include "collectives/schedule/schedule.h"

#include "collectives/schedule/ring.h"
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

}  // namespace
}  // namespace rz
