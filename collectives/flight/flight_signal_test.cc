#include "collectives/flight/flight_signal.h"

#include <sched.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "collectives/flight/flight_dump.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

std::atomic<int> seen_by_the_program{0};

class FlightSignalTest : public ::testing::Test {
 protected:
  FlightSignalTest() : directory_(::testing::TempDir() + "/flight_signal_test") {
    std::filesystem::remove_all(directory_);
  }

  FlightRecord Record(int rank) const {
    FlightRecord record;
    record.job = "test";
    record.rank = rank;
    record.job_rank = rank;
    record.world_size = 8;
    return record;
  }

  bool HasFile(int rank) const {
    return std::filesystem::exists(directory_ + "/" + FlightFileName(Record(rank)));
  }

  void AwaitFile(int rank) const {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!HasFile(rank) && absl::Now() < deadline) sched_yield();
    EXPECT_TRUE(HasFile(rank)) << rank;
  }

  std::unique_ptr<FlightSignal> Listen(int rank) {
    return std::make_unique<FlightSignal>(directory_, [this, rank] { return Record(rank); });
  }

  const std::string directory_;
};

TEST_F(FlightSignalTest, EachSignalWritesTheFilesOfThoseThatListen) {
  // Installed before the first FlightSignal of this process.
  signal(SIGUSR2, [](int) { ++seen_by_the_program; });
  auto one = Listen(1);
  auto two = Listen(2);
  raise(SIGUSR2);
  AwaitFile(1);
  AwaitFile(2);
  EXPECT_EQ(seen_by_the_program, 1) << "the program's own handler was not called";

  std::filesystem::remove_all(directory_);
  one.reset();
  raise(SIGUSR2);
  AwaitFile(2);
  EXPECT_FALSE(HasFile(1));
  EXPECT_EQ(seen_by_the_program, 2);
}

TEST_F(FlightSignalTest, NobodyListeningIsNoError) {
  { auto one = Listen(1); }
  raise(SIGUSR2);
  auto two = Listen(2);
  raise(SIGUSR2);
  AwaitFile(2);
  EXPECT_FALSE(HasFile(1));
}

}  // namespace
}  // namespace rz
