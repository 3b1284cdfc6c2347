#include "tools/flight/flight_files.h"

#include <fstream>
#include <random>

#include "collectives/flight/flight_dump.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tools/flight/flight_report.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

FlightRecord Record(int rank) {
  FlightRecord record;
  record.job = "test";
  record.rank = rank;
  record.world_size = 5;
  record.reason = "SIGUSR2";
  record.taken = absl::FromUnixSeconds(1'700'000'000);
  record.last_number = 7;
  FlightEntry entry;
  entry.number = 7;
  entry.kind = "barrier";
  entry.started = record.taken;
  entry.ended = absl::InfiniteFuture();
  record.entries.push_back(entry);
  return record;
}

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string Write(const std::string& name, const FlightRecord& record) {
  return Write(name, FlightRecordToJson(record));
}

TEST(FlightFilesTest, FilesComeInTheOrderOfTheirRanks) {
  std::vector<std::string> paths;
  for (int rank : {3, 0, 4, 1, 2}) paths.push_back(Write("f" + std::to_string(rank), Record(rank)));
  ASSERT_OK_AND_ASSIGN(const std::vector<FlightRecord> records, ReadFlightFiles(paths));
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(records[rank].rank, rank);
}

TEST(FlightFilesTest, FilesThatDoNotBelongTogetherAreRefused) {
  const std::string zero = Write("zero", Record(0));
  const auto refused = [&](auto change, const std::string& why) {
    FlightRecord other = Record(1);
    change(other);
    const std::string path = Write("other", other);
    EXPECT_THAT(ReadFlightFiles({zero, path}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(path), HasSubstr(zero), HasSubstr(why))));
  };
  refused([](FlightRecord& r) { r.job = "another"; }, "job 'another'");
  refused([](FlightRecord& r) { r.world_size = 6; }, "world of 6");
  refused([](FlightRecord& r) { r.communicator = 2; }, "communicator 2");
  refused([](FlightRecord& r) { r.rank = 0; }, "rank 0");
}

TEST(FlightFilesTest, BadFilesAreNamed) {
  EXPECT_THAT(ReadFlightFiles({}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("RZ_FLIGHT_DIR")));
  EXPECT_THAT(ReadFlightFiles({"/nowhere/x.json"}).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/x.json")));
  for (const std::string& text : {std::string(), std::string("{"), std::string("<html>"),
                                  std::string(1000, '\0'), std::string("{}")}) {
    const std::string path = Write("bad", text);
    EXPECT_THAT(ReadFlightFiles({path}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(path), HasSubstr("flight record"))));
  }
}

TEST(FlightFilesTest, AFileWithoutEndIsRefused) {
  EXPECT_THAT(ReadFlightFiles({"/dev/zero"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes: this is no flight")));
}

TEST(FlightFilesTest, DamagedFilesAreReportedOrRefused) {
  const std::string good = FlightRecordToJson(Record(1));
  const std::string zero = Write("zero", Record(0));
  std::mt19937_64 random(3);
  for (int i = 0; i < 2'000; ++i) {
    std::string text = good;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    const auto records = ReadFlightFiles({zero, Write("damaged", text)});
    if (!records.ok()) continue;
    EXPECT_FALSE(DescribeDivergence(*records).empty());
    EXPECT_FALSE(DescribeRecords(*records).empty());
    EXPECT_FALSE(OperationTable(*records, 4).empty());
  }
}

}  // namespace
}  // namespace rz
