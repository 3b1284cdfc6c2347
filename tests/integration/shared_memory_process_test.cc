// Ranks that share memory as real processes: one is killed or aborts in the middle, more of them
// than cores, and none that waits without using the processor.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/chunk_layout.h"
#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/process_job.h"
#include "tools/launch/shared_memory_sweep.h"

namespace rz {
namespace {

using ::rz::testing::RunInProcesses;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kLargeCount = (int64_t{26} << 20) / sizeof(int32_t) + 3;

std::unique_ptr<Communicator> Open(Transport* transport) {
  CommunicatorOptions options;
  options.operation_timeout = absl::Seconds(60);
  auto comm = Communicator::Create(transport, options);
  if (!comm.ok() || !(*comm)->ShareMemory().ok() || !(*comm)->shares_memory()) return nullptr;
  return *std::move(comm);
}

// All_gathers of so many elements until one fails, and of what: the inputs, private and large, are
// copied out of their processes.
absl::Status GatherUntilFailure(Communicator& comm, int64_t count) {
  std::vector<int32_t> in(count, 1), out(count);
  while (true) {
    const absl::Status status = comm.AllGather(in.data(), out.data(), count, DType::kInt32);
    if (!status.ok()) return status;
    for (int32_t value : out) {
      if (value != 1) return absl::DataLossError(absl::StrCat("value ", value));
    }
  }
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
  const std::time_t began = std::time(nullptr);
  struct Case {
    int64_t count;
    bool gathers;
  };
  for (auto [count, gathers] :
       {Case{2, false}, Case{3000, false}, Case{1'000'000, false}, Case{3'000'000, true}}) {
    for (int microseconds : {0, 700, 3000, 20'000}) {
      SCOPED_TRACE(::testing::Message() << count << " elements, " << microseconds << " us"
                                        << (gathers ? ", all_gather" : ", all_reduce"));
      const std::vector<std::string> ends =
          RunInProcesses(3, {}, [=, count = count, gathers = gathers](Transport* transport) {
            auto comm = Open(transport);
            if (comm == nullptr) return std::string("cannot share memory");
            std::thread killer;
            if (transport->rank() == Rank(1)) {
              killer = std::thread([=] {
                absl::SleepFor(absl::Microseconds(microseconds));
                kill(getpid(), SIGKILL);
              });
            }
            const absl::Status status =
                gathers ? GatherUntilFailure(*comm, count) : ReduceUntilFailure(*comm, count);
            if (killer.joinable()) killer.join();
            return status.ToString();
          });
      EXPECT_THAT(ends[0], AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("rank ")));
      EXPECT_THAT(ends[2], AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("rank ")));
      EXPECT_THAT(ends[0] + ends[2], HasSubstr("rank 1"));
    }
  }
  EXPECT_EQ(SweepSharedMemory("/dev/shm", began), 0);
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

// Outputs so large that they are written past the caches.
std::string CheckLargeCalls(Communicator& comm, int32_t* in, int32_t* out) {
  constexpr int64_t kCount = kLargeCount;
  const int world = comm.world_size();
  const auto value = [](int rank, int64_t i) { return static_cast<int32_t>(rank * 7 + i); };
  const auto wrong = [&](int64_t first, int64_t count, int64_t shift, auto&& expected) {
    for (int64_t i = 0; i < count; ++i) {
      if (out[i] != expected(first + i + shift)) return true;
    }
    return false;
  };
  const auto sum = [&](int64_t i) {
    int32_t total = 0;
    for (int r = 0; r < world; ++r) total += value(r, i);
    return total;
  };
  const int rank = comm.rank().value();
  for (int64_t i = 0; i < kCount; ++i) in[i] = value(rank, i);
  if (!comm.AllReduce(in, out, kCount, DType::kInt32, ReduceOp::kSum).ok()) return "all_reduce";
  if (wrong(0, kCount, 0, sum)) return "the sum is wrong";
  if (!comm.ReduceScatter(in, out, kCount, DType::kInt32, ReduceOp::kSum).ok()) return "scatter";
  const Range own = EvenSplit(kCount, world, rank);
  if (wrong(own.offset, own.count, 0, sum)) return "the shard is wrong";
  if (!comm.AllGather(in, out, kCount, DType::kInt32).ok()) return "all_gather";
  const auto gathered = [&](int64_t i) {
    for (int r = 0; r < world; ++r) {
      const Range part = EvenSplit(kCount, world, r);
      if (i < part.end()) return value(r, i - part.offset);
    }
    return 0;
  };
  if (wrong(0, kCount, 0, gathered)) return "what was gathered is wrong";
  return "";
}

TEST(SharedMemoryProcessTest, LargeOutputsPrivateAndInReach) {
  const std::vector<std::string> ends = RunInProcesses(3, {}, [](Transport* transport) {
    auto comm = Open(transport);
    if (comm == nullptr) return std::string("cannot share memory");
    std::vector<int32_t> in(kLargeCount), out(kLargeCount);
    std::string wrong = CheckLargeCalls(*comm, in.data(), out.data());
    if (!wrong.empty()) return wrong;
    CommunicatorBuffer shared_in = *comm->AllocateBuffer(kLargeCount * sizeof(int32_t));
    CommunicatorBuffer shared_out = *comm->AllocateBuffer(kLargeCount * sizeof(int32_t));
    if (!shared_in.is_shared() || !shared_out.is_shared()) return std::string("not shared");
    return CheckLargeCalls(*comm, reinterpret_cast<int32_t*>(shared_in.data()),
                           reinterpret_cast<int32_t*>(shared_out.data()));
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
