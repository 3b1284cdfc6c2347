#include "collectives/flight/flight_signal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

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

TEST_F(FlightSignalTest, CallsOfTheProgramAreNotInterrupted) {
  auto one = Listen(1);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ssize_t got = 0;
  int error = 0;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    char byte;
    got = read(ends[0], &byte, 1);
    error = errno;
    done = true;
  });
  // It is in the call when most of them come.
  for (int i = 0; i < 200 && !done; ++i) {
    pthread_kill(reader.native_handle(), SIGUSR2);
    absl::SleepFor(absl::Microseconds(100));
  }
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  reader.join();
  EXPECT_EQ(got, 1) << std::strerror(error);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(FlightSignalTest, TheProgramsOwnSignalsAreLeftToItsThreads) {
  auto one = Listen(1);
  static std::atomic<int> handled{0};
  signal(SIGUSR1, [](int) { ++handled; });
  sigset_t usr1, before;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &usr1, &before);
  kill(getpid(), SIGUSR1);
  // Nobody wants it now, so it stays, however long the other threads get.
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(handled, 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(handled, 1);
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
