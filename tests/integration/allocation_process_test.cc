// In the steady state nothing of ours is allocated, between real processes over UCX: in a thousand
// calls of each collective no operator new, malloc or mapping by our code or by what it uses. What
// UCX itself allocates meanwhile is printed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collectives/communicator.h"
#include "collectives/testing/allocation_counter.h"
#include "collectives/testing/steady_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/memory/memory.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

using ::rz::testing::AllocationCounts;
using ::rz::testing::BeginCountingAllocations;
using ::rz::testing::CountedAllocations;
using ::rz::testing::kSteadyBytes;
using ::rz::testing::RunInProcesses;
using ::rz::testing::SteadyCall;
using ::rz::testing::SteadyCalls;
using ::testing::Each;
using ::testing::EndsWith;

constexpr int kWorld = 3;
constexpr int kWarmUp = 500;
constexpr int kCalls = 1000;
constexpr int kAtOnce = 8;
constexpr int kVariantsAtOnce = 8 * kAtOnce;
constexpr absl::Duration kGenerous = absl::Seconds(120);

class Repeater {
 public:
  explicit Repeater(Communicator* comm) : comm_(*comm), send_(kSteadyBytes), recv_(kSteadyBytes) {}

  // Has more calls under way at once than there will be, so that pools and tables are as large.
  absl::Status Stretch(const SteadyCall& call, int at_once) {
    std::vector<Operation> operations;
    for (int i = 0; i < at_once; ++i) {
      absl::StatusOr<Operation> operation = call.start(comm_, send_.data(), recv_.data());
      if (!operation.ok()) return operation.status();
      operations.push_back(*operation);
    }
    for (Operation& operation : operations) {
      if (absl::Status status = operation.Wait(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Repeat(const SteadyCall& call, int times) {
    for (int i = 0; i < times; ++i) {
      absl::StatusOr<Operation> operation = call.start(comm_, send_.data(), recv_.data());
      if (!operation.ok()) return operation.status();
      if (absl::Status status = operation->Wait(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  Communicator& comm_;
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
};

// "all_reduce: nothing of ours, 12 by UCX" or what was wrong.
std::string LineOf(const SteadyCall& call, Repeater& repeater) {
  absl::Status status = repeater.Repeat(call, kWarmUp);
  const size_t scratch = MemoryLedger::Default()->Current(MemoryTag::kScratch);
  BeginCountingAllocations();
  if (status.ok()) status = repeater.Repeat(call, kCalls);
  const AllocationCounts counted = CountedAllocations();
  const bool same_scratch = MemoryLedger::Default()->Current(MemoryTag::kScratch) == scratch;
  if (!status.ok()) return absl::StrCat(call.name, ": ", status.ToString());
  if (!same_scratch) return absl::StrCat(call.name, ": scratch has grown");
  if (counted.ours() != 0) return absl::StrCat(call.name, ": ", counted.ToString());
  return absl::StrCat(call.name, ": ", counted.of_ucx, " by UCX, none of ours");
}

std::string CountAll(Transport* transport, bool shares_memory) {
  CommunicatorOptions options;
  options.operation_timeout = kGenerous;
  absl::StatusOr<std::unique_ptr<Communicator>> comm = Communicator::Create(transport, options);
  if (!comm.ok()) return comm.status().ToString();
  if (shares_memory) {
    if (const absl::Status shared = (*comm)->ShareMemory(); !shared.ok()) return shared.ToString();
    if (!(*comm)->shares_memory()) return "no memory is shared";
  }
  Repeater repeater(comm->get());
  // Whatever the timing of ranks does later: v variants, whose layouts take memory, come after all
  // that has several operations a call, and have been in every operation that there is.
  for (bool variants : {false, true}) {
    for (const SteadyCall& call : SteadyCalls(transport->world_size())) {
      if (absl::EndsWith(call.name, "_v") != variants) continue;
      const absl::Status status = repeater.Stretch(call, variants ? kVariantsAtOnce : kAtOnce);
      if (!status.ok()) return status.ToString();
    }
  }
  std::string lines;
  for (const SteadyCall& call : SteadyCalls(transport->world_size())) {
    absl::StrAppend(&lines, lines.empty() ? "" : "\n", LineOf(call, repeater));
  }
  // The news of a rank that leaves is for none that still counts.
  if (const absl::Status met = (*comm)->Barrier(); !met.ok()) return met.ToString();
  return lines;
}

// What carries the calls.
enum class Carrier { kSharedMemory, kMessagesInSharedMemory, kMessagesOverTcp };

class AllocationProcessTest : public ::testing::TestWithParam<Carrier> {};

TEST_P(AllocationProcessTest, NothingOfOursInAThousandCallsOfEachCollective) {
  // UCX would replace mmap by its own, and with it what counts here.
  setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
  UcxOptions ucx;
  ucx.transports = UcxOptions::Transports::kSharedMemory;
  if (GetParam() == Carrier::kMessagesOverTcp) {
    ucx.transports = UcxOptions::Transports::kTcp;
    ucx.net_device = "lo";
  }
  const bool shares_memory = GetParam() == Carrier::kSharedMemory;
  const std::vector<std::string> texts = RunInProcesses(
      kWorld, ucx, [=](Transport* transport) { return CountAll(transport, shares_memory); });
  for (int r = 0; r < kWorld; ++r) {
    const std::vector<std::string> lines = absl::StrSplit(texts[r], '\n');
    for (const std::string& line : lines) std::cout << "rank " << r << ", " << line << "\n";
    EXPECT_THAT(lines, Each(EndsWith("by UCX, none of ours"))) << "rank " << r;
    EXPECT_EQ(lines.size(), SteadyCalls(kWorld).size());
  }
}

std::string NameOf(const ::testing::TestParamInfo<Carrier>& info) {
  constexpr const char* kNames[] = {"SharedMemory", "MessagesInSharedMemory", "MessagesOverTcp"};
  return kNames[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, AllocationProcessTest,
                         ::testing::Values(Carrier::kSharedMemory, Carrier::kMessagesInSharedMemory,
                                           Carrier::kMessagesOverTcp),
                         NameOf);

}  // namespace
}  // namespace rz
