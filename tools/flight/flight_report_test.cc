#include "tools/flight/flight_report.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

FlightEntry Entry(int64_t number, const std::string& kind, FlightState state = FlightState::kDone) {
  FlightEntry entry;
  entry.number = number;
  entry.kind = kind;
  entry.dtype = "float32";
  entry.op = kind == "all_gather" || kind == "broadcast" ? "" : "sum";
  if (kind == "broadcast") entry.root = 0;
  entry.count = 1000;
  entry.algorithm = "ring";
  entry.call_hash = std::hash<std::string>()(kind) + static_cast<uint64_t>(number);
  entry.state = state;
  entry.started = absl::FromUnixSeconds(1'700'000'000);
  entry.ended = state == FlightState::kStarted ? absl::InfiniteFuture()
                                               : entry.started + absl::Microseconds(12);
  return entry;
}

FlightRecord Record(int rank, int world, std::vector<FlightEntry> entries) {
  FlightRecord record;
  record.job = "test";
  record.rank = rank;
  record.world_size = world;
  record.reason = "SIGUSR2";
  record.taken = absl::FromUnixSeconds(1'700'000'001);
  record.last_number = entries.empty() ? 0 : entries.back().number;
  record.entries = std::move(entries);
  return record;
}

std::vector<FlightEntry> Forty() {
  std::vector<FlightEntry> entries;
  for (int64_t n = 1; n < 40; ++n) entries.push_back(Entry(n, "all_reduce"));
  return entries;
}

TEST(FlightReportTest, ARankThatHasNotCalledIsNamedWithItsPlace) {
  for (int world = 2; world <= 5; ++world) {
    std::vector<FlightRecord> records;
    for (int r = 0; r < world; ++r) {
      std::vector<FlightEntry> entries = Forty();
      const bool late = r == world - 1;
      entries.push_back(
          Entry(40, "reduce_scatter", late ? FlightState::kStarted : FlightState::kDone));
      if (late) {
        entries.back().position = {0, 2, world - 2};
      } else {
        entries.push_back(Entry(41, "all_gather", FlightState::kStarted));
      }
      records.push_back(Record(r, world, entries));
    }
    EXPECT_EQ(DescribeDivergence(records),
              "rank " + std::to_string(world - 1) +
                  " has not called all_gather #41; it is in reduce_scatter #40, step 2, waiting "
                  "for rank " +
                  std::to_string(world - 2));
  }
}

TEST(FlightReportTest, TheEarliestMissingCallCounts) {
  EXPECT_EQ(DescribeDivergence(std::vector<FlightRecord>{
                Record(0, 4, {Entry(1, "all_reduce"), Entry(2, "all_gather")}),
                Record(1, 4, {Entry(1, "all_reduce")}), Record(2, 4, {}), Record(3, 4, {})}),
            "rank 2 has not called all_reduce #1; it has called nothing\n"
            "rank 3 has not called all_reduce #1; it has called nothing");
  EXPECT_EQ(DescribeDivergence(std::vector<FlightRecord>{
                Record(0, 2, {Entry(1, "all_reduce"), Entry(2, "all_gather")}),
                Record(1, 2, {Entry(1, "all_reduce")})}),
            "rank 1 has not called all_gather #2; its last one, all_reduce #1, is done");
}

TEST(FlightReportTest, ARecordFromBeforeTheCallIsSaidToBeOlder) {
  FlightRecord early = Record(0, 2, {Entry(1, "all_reduce")});
  early.taken = absl::FromUnixSeconds(1'700'000'000) - absl::Milliseconds(1);
  EXPECT_EQ(DescribeDivergence(std::vector<FlightRecord>{
                early, Record(1, 2, {Entry(1, "all_reduce"), Entry(2, "all_gather")})}),
            "rank 0 has not called all_gather #2; its last one, all_reduce #1, is done (but its "
            "record is older than anybody's call of it)");
}

TEST(FlightReportTest, OtherCallsComeBeforeWhatFollowsFromThem) {
  std::vector<FlightEntry> zero = Forty(), one = Forty(), two = Forty();
  zero.push_back(Entry(40, "all_reduce", FlightState::kFailed));
  one.push_back(Entry(40, "broadcast"));
  one.push_back(Entry(41, "barrier", FlightState::kFailed));
  two.push_back(Entry(40, "all_reduce", FlightState::kFailed));
  EXPECT_EQ(
      DescribeDivergence(
          std::vector<FlightRecord>{Record(0, 3, zero), Record(1, 3, one), Record(2, 3, two)}),
      "operation 40: rank 0 called all_reduce of 1000 float32 sum, rank 1 called broadcast of "
      "1000 float32 from root 0");
}

// A rank far from those that differ may hear of it before it has made that call.
TEST(FlightReportTest, ARankThatFailedBeforeTheDifferentCallsDoesNotHideThem) {
  std::vector<FlightEntry> zero = Forty(), one = Forty(), two = Forty();
  zero.back().state = FlightState::kFailed;
  for (auto* entries : {&one, &two}) entries->push_back(Entry(40, "all_reduce"));
  one.push_back(Entry(41, "broadcast", FlightState::kFailed));
  two.push_back(Entry(41, "all_reduce", FlightState::kFailed));
  const std::string differ =
      "operation 41: rank 1 called broadcast of 1000 float32 from root 0, rank 2 called all_reduce "
      "of 1000 float32 sum";
  EXPECT_EQ(DescribeDivergence(std::vector<FlightRecord>{Record(0, 3, zero), Record(1, 3, one),
                                                         Record(2, 3, two)}),
            differ);
  // So does one that has only to call to hear of it.
  zero.back().state = FlightState::kDone;
  zero.push_back(Entry(40, "all_reduce"));
  EXPECT_EQ(DescribeDivergence(std::vector<FlightRecord>{Record(0, 3, zero), Record(1, 3, one),
                                                         Record(2, 3, two)}),
            differ);
}

TEST(FlightReportTest, EqualCallsWithOtherOptionsAreSaidToBe) {
  FlightEntry other = Entry(1, "all_reduce");
  other.call_hash += 1;
  EXPECT_THAT(DescribeDivergence(std::vector<FlightRecord>{Record(0, 2, {Entry(1, "all_reduce")}),
                                                           Record(1, 2, {other})}),
              HasSubstr("with other options or after other calls"));
}

TEST(FlightReportTest, AMissingCallBeforeADifferentOneComesFirst) {
  FlightEntry other = Entry(3, "broadcast");
  EXPECT_THAT(
      DescribeDivergence(std::vector<FlightRecord>{
          Record(0, 3, {Entry(1, "all_reduce")}),
          Record(1, 3, {Entry(1, "all_reduce"), Entry(2, "all_reduce"), other}),
          Record(2, 3, {Entry(1, "all_reduce"), Entry(2, "all_reduce"), Entry(3, "all_reduce")})}),
      HasSubstr("rank 0 has not called all_reduce #2"));
}

TEST(FlightReportTest, UnfinishedOperationsNameWhoIsInThem) {
  FlightEntry waiting = Entry(1, "all_reduce", FlightState::kStarted);
  waiting.position = {3, 1, 0};
  EXPECT_EQ(DescribeDivergence(std::vector<FlightRecord>{Record(0, 2, {Entry(1, "all_reduce")}),
                                                         Record(1, 2, {waiting})}),
            "all ranks have called all_reduce #1; rank 1 is in it, step 1, waiting for rank 0");
  FlightEntry failed = Entry(1, "all_reduce", FlightState::kFailed);
  EXPECT_EQ(DescribeDivergence(std::vector<FlightRecord>{Record(0, 2, {Entry(1, "all_reduce")}),
                                                         Record(1, 2, {failed})}),
            "all ranks have called all_reduce #1; rank 1 failed in it");
  EXPECT_EQ(DescribeDivergence(std::vector<FlightRecord>{Record(0, 3, {Entry(1, "all_reduce")}),
                                                         Record(1, 3, {waiting})}),
            "all of these ranks have called all_reduce #1; rank 1 is in it, step 1, waiting for "
            "rank 0");
}

TEST(FlightReportTest, NoDivergenceIsSaid) {
  EXPECT_EQ(
      DescribeDivergence(std::vector<FlightRecord>{Record(0, 2, Forty()), Record(1, 2, Forty())}),
      "no divergence: these ranks are all through with operation 39");
  EXPECT_EQ(DescribeDivergence(std::vector<FlightRecord>{Record(0, 2, {})}),
            "no divergence: the rank is through with operation 0");
}

TEST(FlightReportTest, OperationsThatOneRingHasLostAreNotCompared) {
  std::vector<FlightEntry> all = Forty();
  EXPECT_THAT(DescribeDivergence(std::vector<FlightRecord>{
                  Record(0, 2, all), Record(1, 2, {all.begin() + 30, all.end()})}),
              HasSubstr("no divergence"));
}

TEST(FlightReportTest, RecordsAndMissingRanksAreListed) {
  const std::string text = DescribeRecords(
      std::vector<FlightRecord>{Record(0, 5, {}), Record(1, 5, {}), Record(3, 5, {})});
  EXPECT_THAT(text, AllOf(HasSubstr("job test, communicator 0, 3 of 5 ranks"),
                          HasSubstr("rank 3: taken 2023-11-14 22:13:21.000 UTC, SIGUSR2"),
                          HasSubstr("no file of rank 2, 4: ")));
  EXPECT_THAT(DescribeRecords(std::vector<FlightRecord>{Record(0, 2'000'000'000, {})}),
              HasSubstr("15, 16, ...:"));
}

TEST(FlightReportTest, TheTableHasTheLastOperationsOfEachRank) {
  FlightEntry waiting = Entry(40, "reduce_scatter", FlightState::kStarted);
  waiting.position = {7, 2, 1};
  std::vector<FlightEntry> entries = Forty();
  entries.push_back(waiting);
  const std::string table =
      OperationTable(std::vector<FlightRecord>{Record(0, 2, entries), Record(1, 2, Forty())}, 2);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5);
  EXPECT_THAT(table, AllOf(HasSubstr("reduce_scatter of 1000 float32 sum"), HasSubstr("started"),
                           HasSubstr("rank 1"), HasSubstr("12.0")));
}

TEST(FlightReportTest, TextOfFilesCannotDriveATerminal) {
  FlightRecord record = Record(0, 1, {Entry(1, "all\x1b[2Jreduce")});
  record.job = "a\x1b[31m";
  record.reason = "b\r\n\x07";
  const std::vector<FlightRecord> records = {record};
  const std::string text =
      DescribeRecords(records) + OperationTable(records, 3) + DescribeDivergence(records);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r")), Not(HasSubstr("\x07"))));
}

}  // namespace
}  // namespace rz
