#include "collectives/flight/flight_dump.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

FlightRecord Record() {
  FlightRecord record;
  record.job = "night run/7";
  record.rank = 2;
  record.job_rank = 2;
  record.world_size = 4;
  record.communicator = 0;
  record.reason = "rank 1 said \"no\"\n";
  record.taken = absl::FromUnixNanos(1'700'000'000'123'456'789);
  record.last_number = 41;
  FlightEntry entry;
  entry.number = 40;
  entry.kind = "reduce_scatter";
  entry.dtype = "bfloat16";
  entry.op = "sum";
  entry.algorithm = "ring";
  entry.count = int64_t{1} << 40;
  entry.call_hash = ~uint64_t{0};
  entry.state = FlightState::kDone;
  entry.started = record.taken - absl::Seconds(2);
  entry.ended = record.taken - absl::Seconds(1);
  record.entries.push_back(entry);
  entry.number = 41;
  entry.kind = "broadcast";
  entry.op = "";
  entry.root = 3;
  entry.state = FlightState::kStarted;
  entry.position = {5, 2, 1};
  entry.ended = absl::InfiniteFuture();
  record.entries.push_back(entry);
  return record;
}

TEST(FlightDumpTest, ARecordComesBackAsItWas) {
  const FlightRecord written = Record();
  ASSERT_OK_AND_ASSIGN(const FlightRecord read, ParseFlightRecord(FlightRecordToJson(written)));
  EXPECT_EQ(read.job, written.job);
  EXPECT_EQ(read.rank, 2);
  EXPECT_EQ(read.job_rank, 2);
  EXPECT_EQ(read.world_size, 4);
  EXPECT_EQ(read.communicator, 0u);
  EXPECT_EQ(read.reason, written.reason);
  EXPECT_EQ(read.taken, written.taken);
  EXPECT_EQ(read.last_number, 41);
  ASSERT_EQ(read.entries.size(), 2u);
  for (int i : {0, 1}) {
    const FlightEntry& a = read.entries[i];
    const FlightEntry& b = written.entries[i];
    EXPECT_EQ(a.number, b.number);
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.dtype, b.dtype);
    EXPECT_EQ(a.op, b.op);
    EXPECT_EQ(a.algorithm, b.algorithm);
    EXPECT_EQ(a.count, b.count);
    EXPECT_EQ(a.root, b.root);
    EXPECT_EQ(a.call_hash, b.call_hash);
    EXPECT_EQ(a.state, b.state);
    EXPECT_EQ(a.position, b.position);
    EXPECT_EQ(a.started, b.started);
    EXPECT_EQ(a.ended, b.ended);
  }
}

TEST(FlightDumpTest, OtherTextIsRefused) {
  const auto invalid = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(ParseFlightRecord("").status(), invalid("no flight record"));
  EXPECT_THAT(ParseFlightRecord("{}").status(), invalid("but of 0"));
  EXPECT_THAT(ParseFlightRecord("[1, 2]").status(), invalid("no flight record"));
  EXPECT_THAT(ParseFlightRecord(R"({"format_version": 2})").status(), invalid("but of 2"));
  EXPECT_THAT(ParseFlightRecord(R"({"format_version": 1, "rank": 4, "world_size": 4})").status(),
              invalid("rank 4 of a world of 4"));
  EXPECT_THAT(ParseFlightRecord(R"({"format_version": 1, "rank": -1, "world_size": 4})").status(),
              invalid("rank -1"));
  const std::string head = R"({"format_version": 1, "world_size": 1, "last_number": 2,)";
  EXPECT_THAT(
      ParseFlightRecord(head + R"("operations": [{"number": 3, "state": "DONE"}]})").status(),
      invalid("operation 3 after operation 0"));
  EXPECT_THAT(ParseFlightRecord(head + R"("operations": [{"number": 2, "state": "DONE"},
                                                         {"number": 1, "state": "DONE"}]})")
                  .status(),
              invalid("operation 1 after operation 2"));
  EXPECT_THAT(ParseFlightRecord(head + R"("operations": [{"number": 1}]})").status(),
              invalid("no known state"));
  EXPECT_OK(ParseFlightRecord(head + R"("from_the_future": {"a": 1}})").status());
}

TEST(FlightDumpTest, DamagedTextNeverBreaksTheReader) {
  const std::string good = FlightRecordToJson(Record());
  std::mt19937_64 random(1);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (uint64_t n = random() % 4; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, good.substr(random() % good.size(), random() % 20));
      }
      if (text.empty()) break;
    }
    const auto record = ParseFlightRecord(text);
    if (!record.ok()) continue;
    ++read;
    EXPECT_FALSE(FlightFileName(*record).empty());
  }
  EXPECT_GT(read, 0);
}

TEST(FlightDumpTest, DeepNestingIsRefused) {
  const std::string text = R"({"format_version": 1, "x": )" + std::string(100'000, '[');
  EXPECT_THAT(ParseFlightRecord(text).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FlightDumpTest, FilesAreNamedByJobAndRank) {
  FlightRecord record = Record();
  EXPECT_EQ(FlightFileName(record), "flight-night_run_7-2.json");
  record.communicator = 3;
  EXPECT_EQ(FlightFileName(record), "flight-night_run_7-2-3.json");
  record.job = "../../etc";
  EXPECT_THAT(FlightFileName(record), Not(HasSubstr("/")));
}

TEST(FlightDumpTest, FilesAreWrittenAsAWhole) {
  const std::string directory = ::testing::TempDir() + "/flight_dump_test/deep";
  FlightRecord record = Record();
  ASSERT_OK(WriteFlightRecord(record, directory));
  record.reason = "again";
  ASSERT_OK(WriteFlightRecord(record, directory));
  std::ifstream file(directory + "/" + FlightFileName(record));
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_OK_AND_ASSIGN(const FlightRecord read, ParseFlightRecord(text.str()));
  EXPECT_EQ(read.reason, "again");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1);
}

TEST(FlightDumpTest, ReadersNeverSeeHalfAFile) {
  const std::string directory = ::testing::TempDir() + "/flight_dump_test/rewritten";
  FlightRecord record = Record();
  for (int64_t n = 42; n < 300; ++n) {
    record.entries.push_back(record.entries.back());
    record.entries.back().number = record.last_number = n;
  }
  ASSERT_OK(WriteFlightRecord(record, directory));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) EXPECT_OK(WriteFlightRecord(record, directory));
  });
  for (int i = 0; i < 100; ++i) {
    std::ifstream file(directory + "/" + FlightFileName(record));
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_THAT(ParseFlightRecord(text.str()), ::rz::testing::IsOk());
  }
  stop = true;
  writer.join();
}

TEST(FlightDumpTest, ADirectoryThatCannotBeIsSaid) {
  const std::string file = ::testing::TempDir() + "/flight_dump_file";
  std::ofstream(file) << "x";
  EXPECT_THAT(WriteFlightRecord(Record(), file + "/below"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(file + "/below")));
}

}  // namespace
}  // namespace rz
