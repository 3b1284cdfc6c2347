// Ranks that share memory as real processes: one is killed or aborts in the middle, more of them
// than cores, and none that waits without using the processor.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

using ::rz::testing::RunInProcesses;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

std::unique_ptr<Communicator> Open(Transport* transport) {
  CommunicatorOptions options;
  options.operation_timeout = absl::Seconds(60);
  auto comm = Communicator::Create(transport, options);
  if (!comm.ok() || !(*comm)->ShareMemory().ok() || !(*comm)->shares_memory()) return nullptr;
  return *std::move(comm);
}

std::set<std::string> SharedFiles() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    names.insert(entry.path().filename());
  }
  return names;
}

// All_reduces of `count` elements until one fails, and of what.
absl::Status ReduceUntilFailure(Communicator& comm, int64_t count) {
  std::vector<int32_t> in(count, 1), out(count);
  while (true) {
    const absl::Status status =
        comm.AllReduce(in.data(), out.data(), count, DType::kInt32, ReduceOp::kSum);
    if (!status.ok()) return status;
    for (int32_t value : out) {
      if (value != comm.world_size()) return absl::DataLossError(absl::StrCat("value ", value));
    }
  }
}

TEST(SharedMemoryProcessTest, AKilledRankEndsTheOthersAndLeavesNothing) {
  const std::set<std::string> before = SharedFiles();
  for (int64_t count : {2, 3000, 1'000'000}) {
    for (int microseconds : {0, 700, 3000, 20'000}) {
      SCOPED_TRACE(::testing::Message() << count << " elements, " << microseconds << " us");
      const std::vector<std::string> ends = RunInProcesses(3, {}, [=](Transport* transport) {
        auto comm = Open(transport);
        if (comm == nullptr) return std::string("cannot share memory");
        std::thread killer;
        if (transport->rank() == Rank(1)) {
          killer = std::thread([=] {
            absl::SleepFor(absl::Microseconds(microseconds));
            kill(getpid(), SIGKILL);
          });
        }
        const absl::Status status = ReduceUntilFailure(*comm, count);
        if (killer.joinable()) killer.join();
        return status.ToString();
      });
      EXPECT_THAT(ends[0], AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("rank ")));
      EXPECT_THAT(ends[2], AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("rank ")));
      EXPECT_THAT(ends[0] + ends[2], HasSubstr("rank 1"));
    }
  }
  EXPECT_EQ(SharedFiles(), before);
}

TEST(SharedMemoryProcessTest, AnAbortFromAnotherThreadEndsEverybody) {
  const std::vector<std::string> ends = RunInProcesses(3, {}, [](Transport* transport) {
    auto comm = Open(transport);
    if (comm == nullptr) return std::string("cannot share memory");
    std::thread other;
    if (transport->rank() == Rank(2)) {
      other = std::thread([&] {
        absl::SleepFor(absl::Milliseconds(5));
        comm->Abort(absl::AbortedError("enough"));
      });
    }
    const std::string end = ReduceUntilFailure(*comm, 1000).ToString();
    if (other.joinable()) other.join();
    return end;
  });
  EXPECT_THAT(ends[2], HasSubstr("enough"));
  EXPECT_THAT(ends[0], HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(ends[1], HasSubstr("UNAVAILABLE"));
}

TEST(SharedMemoryProcessTest, WhoWaitsForALateRankSleeps) {
  const std::vector<std::string> ends = RunInProcesses(2, {}, [](Transport* transport) {
    auto comm = Open(transport);
    if (comm == nullptr) return std::string("cannot share memory");
    if (transport->rank() == Rank(0)) absl::SleepFor(absl::Seconds(2));
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    if (!comm->Barrier().ok()) return std::string("no barrier");
    getrusage(RUSAGE_SELF, &after);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    const double used = seconds(after.ru_utime) + seconds(after.ru_stime) -
                        seconds(before.ru_utime) - seconds(before.ru_stime);
    // Of two seconds of waiting.
    return used < 0.5 ? std::string() : absl::StrCat("used ", used, " s of processor time");
  });
  EXPECT_THAT(ends, Each(""));
}

TEST(SharedMemoryProcessTest, MoreRanksThanCores) {
  const std::vector<std::string> ends = RunInProcesses(6, {}, [](Transport* transport) {
    auto comm = Open(transport);
    if (comm == nullptr) return std::string("cannot share memory");
    for (int i = 0; i < 300; ++i) {
      for (int64_t count : {1, 1000, 50'000}) {
        std::vector<int64_t> values(count, i);
        const absl::Status status =
            comm->AllReduce(values.data(), values.data(), count, DType::kInt64, ReduceOp::kSum);
        if (!status.ok()) return status.ToString();
        if (values[count / 2] != 6 * i) return std::string("wrong sum");
      }
    }
    return std::string();
  });
  EXPECT_THAT(ends, Each(""));
}

TEST(SharedMemoryProcessTest, OverTcpAloneTheRanksShareNothing) {
  UcxOptions tcp;
  tcp.transports = UcxOptions::Transports::kTcp;
  tcp.net_device = "lo";
  const std::vector<std::string> ends = RunInProcesses(2, tcp, [](Transport* transport) {
    auto comm = *Communicator::Create(transport, {});
    absl::Status status = comm->ShareMemory();
    if (status.ok()) status = comm->Barrier();
    return absl::StrCat(status.ToString(), comm->shares_memory());
  });
  EXPECT_THAT(ends, Each("OK0"));
}

}  // namespace
}  // namespace rz
