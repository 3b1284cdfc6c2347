// Collectives between processes that go on while their owner does something else.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "collectives/testing/collective_case.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_macros.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

using ::rz::testing::DrawJobCase;
using ::rz::testing::JobCase;
using ::rz::testing::MakeRankCalls;
using ::rz::testing::RankCall;
using ::rz::testing::RunInProcesses;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr absl::Duration kGenerous = absl::Seconds(60);
constexpr int64_t kLarge = int64_t{1} << 20;

UcxOptions Tcp() {
  UcxOptions options;
  options.transports = UcxOptions::Transports::kTcp;
  options.net_device = "lo";
  return options;
}

CommunicatorOptions Patient() {
  CommunicatorOptions options;
  options.operation_timeout = kGenerous;
  options.link = LinkKind::kNetwork;
  return options;
}

// What one rank tells another one beside the communicator: bytes through a pipe that all ranks have
// from before they were forked.
class SideChannel {
 public:
  SideChannel() { EXPECT_EQ(pipe2(fds_, O_CLOEXEC), 0); }
  ~SideChannel() {
    close(fds_[0]);
    close(fds_[1]);
  }

  void Tell() const { EXPECT_EQ(write(fds_[1], "x", 1), 1); }
  // Sleeps until somebody has told; false: nobody has for longer than any operation may take.
  bool Hear() const {
    pollfd descriptor = {fds_[0], POLLIN, 0};
    char byte;
    return poll(&descriptor, 1, 2 * static_cast<int>(absl::ToInt64Milliseconds(kGenerous))) == 1 &&
           read(fds_[0], &byte, 1) == 1;
  }

 private:
  int fds_[2];
};

std::string TextOf(const absl::Status& status) { return status.ok() ? "" : status.ToString(); }

absl::StatusOr<std::unique_ptr<Communicator>> WithThread(Transport* transport) {
  RZ_ASSIGN_OR_RETURN(auto comm, Communicator::Create(transport, Patient()));
  RZ_RETURN_IF_ERROR(comm->StartProgressThread());
  return comm;
}

// Rank 0 starts a call of many rounds and comes back when the others have told that they are
// through with it.
absl::Status LeaveAlone(Communicator& comm, const SideChannel& channel) {
  std::vector<float> values(kLarge, 1.0F);
  RZ_ASSIGN_OR_RETURN(Operation sum, comm.StartAllReduce(values.data(), values.data(), kLarge,
                                                         DType::kFloat32, ReduceOp::kSum));
  if (comm.rank() == Rank(0)) {
    for (int peer = 1; peer < comm.world_size(); ++peer) {
      if (!channel.Hear()) return absl::DeadlineExceededError("the others have not ended");
    }
  } else {
    RZ_RETURN_IF_ERROR(sum.Wait());
    channel.Tell();
  }
  RZ_RETURN_IF_ERROR(sum.Wait());
  if (values[0] == comm.world_size() && values[kLarge - 1] == comm.world_size()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("the sum is ", values[0]));
}

std::string LeaveAloneOn(Transport* transport, bool share_memory, const SideChannel& channel) {
  auto comm = WithThread(transport);
  if (!comm.ok()) return comm.status().ToString();
  if (share_memory) {
    const absl::Status shared = (*comm)->ShareMemory();
    if (!shared.ok()) return shared.ToString();
  }
  return TextOf(LeaveAlone(**comm, channel));
}

TEST(ProgressThreadProcessTest, CallsEndWithoutTheirOwner) {
  const SideChannel channel;
  EXPECT_THAT(RunInProcesses(3, Tcp(),
                             [&](Transport* transport) {
                               return LeaveAloneOn(transport, /*share_memory=*/false, channel);
                             }),
              Each(""));
}

TEST(ProgressThreadProcessTest, CallsThroughSharedMemoryEndWithoutTheirOwner) {
  const SideChannel channel;
  EXPECT_THAT(RunInProcesses(2, {},
                             [&](Transport* transport) {
                               return LeaveAloneOn(transport, /*share_memory=*/true, channel);
                             }),
              Each(""));
}

TEST(ProgressThreadProcessTest, PartsOfASplitTakeTurnsToo) {
  const SideChannel channel;
  EXPECT_THAT(RunInProcesses(2, Tcp(),
                             [&](Transport* transport) -> std::string {
                               auto comm = WithThread(transport);
                               if (!comm.ok()) return comm.status().ToString();
                               auto part = (*comm)->Split(0, transport->rank().value());
                               if (!part.ok()) return part.status().ToString();
                               absl::Status status = (*part)->StartProgressThread();
                               if (status.ok()) status = LeaveAlone(**part, channel);
                               // The whole's goes on without its part, and the part's without it.
                               part->reset();
                               if (status.ok()) status = LeaveAlone(**comm, channel);
                               return TextOf(status);
                             }),
              Each(""));
}

// The owner polls some, waits for some, and leaves others alone.
absl::Status RunCase(const JobCase& c, Transport* transport) {
  CommunicatorOptions options = c.options;
  options.operation_timeout = kGenerous;
  RZ_ASSIGN_OR_RETURN(auto comm, Communicator::Create(transport, options));
  RZ_RETURN_IF_ERROR(comm->StartProgressThread());
  if (c.seed % 4 == 0) {
    RZ_RETURN_IF_ERROR(comm->ShareMemory());
    if (!comm->shares_memory()) options.link = LinkKind::kNetwork;
  }
  const int rank = transport->rank().value();
  std::vector<std::vector<std::unique_ptr<RankCall>>> calls;
  std::vector<Operation> operations;
  for (const auto& call : c.calls) {
    calls.push_back(MakeRankCalls(call, c.world, options, comm->shares_memory()));
    RZ_ASSIGN_OR_RETURN(const Operation operation, calls.back()[rank]->Start(*comm));
    operations.push_back(operation);
    if ((c.seed + static_cast<uint64_t>(rank)) % 2 == 0) operations.front().Poll();
  }
  for (Operation& operation : operations) RZ_RETURN_IF_ERROR(operation.Wait());
  for (auto& call : calls) {
    call[rank]->TakeBack();
    if (const std::string wrong = call[rank]->Check(); !wrong.empty()) {
      return absl::DataLossError(wrong);
    }
  }
  return absl::OkStatus();
}

TEST(ProgressThreadProcessTest, NoBitChanges) {
  for (const UcxOptions& options : {Tcp(), UcxOptions()}) {
    EXPECT_THAT(RunInProcesses(3, options,
                               [](Transport* transport) -> std::string {
                                 CommunicatorOptions between = Patient();
                                 between.id = 1;
                                 auto barrier = Communicator::Create(transport, between);
                                 if (!barrier.ok()) return barrier.status().ToString();
                                 for (uint64_t seed = 1; seed <= 24; ++seed) {
                                   const JobCase c = DrawJobCase(seed, 3, 100'000);
                                   absl::Status status = RunCase(c, transport);
                                   if (status.ok()) status = (*barrier)->Barrier();
                                   if (!status.ok()) {
                                     return absl::StrCat(status.ToString(), "; ", c.ToString());
                                   }
                                 }
                                 return "";
                               }),
                Each(""));
  }
}

absl::Duration CpuTime() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

TEST(ProgressThreadProcessTest, IdleCommunicatorUsesNoCpu) {
  EXPECT_THAT(RunInProcesses(2, Tcp(),
                             [&](Transport* transport) -> std::string {
                               auto comm = WithThread(transport);
                               if (!comm.ok()) return comm.status().ToString();
                               absl::Status status = (*comm)->Barrier();
                               // All have heard of each other's calls.
                               if (status.ok()) status = (*comm)->Barrier();
                               if (!status.ok()) return status.ToString();
                               const absl::Duration before = CpuTime();
                               usleep(1'000'000);
                               const absl::Duration used = CpuTime() - before;
                               status = (*comm)->Barrier();
                               if (!status.ok()) return status.ToString();
                               if (used < absl::Milliseconds(100)) return "";
                               return absl::StrCat("of a second ", absl::FormatDuration(used));
                             }),
              Each(""));
}

TEST(ProgressThreadProcessTest, WhatTheThreadFindsIsTheOwnersFirstCause) {
  const SideChannel channel;
  const std::vector<std::string> texts =
      RunInProcesses(2, Tcp(), [&](Transport* transport) -> std::string {
        auto comm = WithThread(transport);
        if (!comm.ok()) return comm.status().ToString();
        std::vector<float> values(kLarge);
        // Different counts: found wherever the two are compared, which no owner here does.
        const int64_t count = kLarge - transport->rank().value();
        auto sum = (*comm)->StartAllReduce(values.data(), values.data(), count, DType::kFloat32,
                                           ReduceOp::kSum);
        if (!sum.ok()) return sum.status().ToString();
        while (!sum->done()) sched_yield();
        const absl::Status cause = sum->status();
        if ((*comm)->status() != cause || (*comm)->Barrier() != cause) return "not the same";
        return cause.ToString();
      });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("1048575"),
                                HasSubstr("1048576"))));
}

TEST(ProgressThreadProcessTest, AbortAndDestructionWithCallsUnderWayEnd) {
  for (const bool aborts : {false, true}) {
    const SideChannel channel;
    EXPECT_THAT(RunInProcesses(
                    2, Tcp(),
                    [&](Transport* transport) -> std::string {
                      auto comm = WithThread(transport);
                      if (!comm.ok()) return comm.status().ToString();
                      if (transport->rank() == Rank(1)) return channel.Hear() ? "" : "hung";
                      std::vector<float> values(kLarge);
                      auto sum = (*comm)->StartAllReduce(values.data(), values.data(), kLarge,
                                                         DType::kFloat32, ReduceOp::kSum);
                      if (!sum.ok()) return sum.status().ToString();
                      if (aborts) {
                        std::thread([&] { (*comm)->Abort(absl::AbortedError("enough")); }).join();
                        while (!sum->done()) sched_yield();
                        if (sum->status().message() != "enough") return sum->status().ToString();
                      }
                      comm->reset();
                      channel.Tell();
                      return "";
                    }),
                Each(""));
  }
}

TEST(ProgressThreadProcessTest, ProgramsMayBeStartedMeanwhile) {
  const SideChannel channel;
  EXPECT_THAT(RunInProcesses(2, Tcp(),
                             [&](Transport* transport) -> std::string {
                               auto comm = WithThread(transport);
                               if (!comm.ok()) return comm.status().ToString();
                               for (int i = 0; i < 10; ++i) {
                                 const pid_t child = fork();
                                 if (child == 0) {
                                   execl("/bin/true", "true", nullptr);
                                   _exit(1);
                                 }
                                 int status = -1;
                                 if (waitpid(child, &status, 0) != child || status != 0) {
                                   return "the program did not run";
                                 }
                                 const absl::Status left = LeaveAlone(**comm, channel);
                                 if (!left.ok()) return left.ToString();
                               }
                               return "";
                             }),
              Each(""));
}

}  // namespace
}  // namespace rz
