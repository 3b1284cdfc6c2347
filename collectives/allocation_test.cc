// In the steady state nothing is allocated: every operator new, malloc and mapping of this program
// and every byte of scratch is counted while collectives are repeated. Messages go by rendezvous,
// so that the simulated wires copy nothing either.
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/algorithm.h"
#include "collectives/communicator.h"
#include "collectives/testing/allocation_counter.h"
#include "collectives/testing/steady_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/memory/memory.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::AllocationCounts;
using ::rz::testing::BeginCountingAllocations;
using ::rz::testing::CountedAllocations;
using ::rz::testing::kSteadyBytes;
using ::rz::testing::SteadyCall;
using ::rz::testing::SteadyCalls;

constexpr int kWorld = 4;
constexpr int kWarmUp = 300;
constexpr int kCalls = 1000;

// The simulated wires have queues, too, that grow to what was in them. Fills them far beyond what
// the ranks will: all messages arrive before any is received, and wait before anybody is told; then
// all are awaited before any is sent.
class Stretcher final : public CompletionSink {
 public:
  explicit Stretcher(SimWorld* world) {
    Send(world);
    for (int i = 0; i < 20 * kMessages; ++i) world->transport(Rank(0))->Progress();
    Receive(world);
    Complete(world);
    Receive(world);
    Send(world);
    Complete(world);
  }

  void OnComplete(uint64_t, const absl::Status&, size_t) override { ++completed_; }

 private:
  static constexpr int kMessages = 300;

  void Send(SimWorld* world) {
    for (int i = 0; i < kMessages; ++i) {
      ForEachPair(world, [&](Transport* transport, Rank peer) {
        EXPECT_OK(transport->PostSend(peer, kMaxTag, {}, this, 0));
      });
    }
  }

  void Receive(SimWorld* world) {
    for (int i = 0; i < kMessages; ++i) {
      ForEachPair(world, [&](Transport* transport, Rank peer) {
        EXPECT_OK(transport->PostRecv(peer, kMaxTag, {}, this, 0));
      });
    }
  }

  void Complete(SimWorld* world) {
    to_complete_ += 2 * kMessages * kWorld * (kWorld - 1);
    while (completed_ < to_complete_) {
      for (int r = 0; r < kWorld; ++r) world->transport(Rank(r))->Progress();
    }
  }

  template <typename F>
  void ForEachPair(SimWorld* world, F f) {
    for (int r = 0; r < kWorld; ++r) {
      for (int peer = 0; peer < kWorld; ++peer) {
        if (peer != r) f(world->transport(Rank(r)), Rank(peer));
      }
    }
  }

  int completed_ = 0;
  int to_complete_ = 0;
};

// Ranks that repeat one call, stepped in turn.
class SteadyState {
 public:
  explicit SteadyState(CommunicatorOptions options = {}, std::vector<int> hosts = {})
      : world_(kWorld, {.send_mode = SendMode::kRendezvous, .hosts = hosts}) {
    options.slice_bytes = 512;
    options.clock = world_.clock();
    Stretcher stretched(&world_);
    for (int r = 0; r < kWorld; ++r) {
      auto comm = Communicator::Create(world_.transport(Rank(r)), options);
      EXPECT_OK(comm);
      comms_.push_back(*std::move(comm));
      send_.emplace_back(kSteadyBytes);
      recv_.emplace_back(kSteadyBytes);
    }
    operations_.reserve(kWorld);
    if (!hosts.empty()) ShareMemory();
  }

  void ExpectNoAllocation(const SteadyCall& call) {
    SCOPED_TRACE(call.name);
    for (int i = 0; i < kWarmUp; ++i) Run(call);
    const size_t scratch = MemoryLedger::Default()->Current(MemoryTag::kScratch);
    BeginCountingAllocations();
    for (int i = 0; i < kCalls; ++i) Run(call);
    const AllocationCounts counted = CountedAllocations();
    EXPECT_EQ(counted.ours(), 0) << counted.ToString();
    EXPECT_EQ(MemoryLedger::Default()->Current(MemoryTag::kScratch), scratch);
  }

 private:
  void ShareMemory() {
    std::vector<ShareOperation> shares;
    for (auto& comm : comms_) shares.push_back(*comm->StartShareMemory());
    bool done = false;
    while (!done) {
      done = true;
      for (ShareOperation& share : shares) done &= share.Poll();
    }
    for (ShareOperation& share : shares) EXPECT_OK(share.Finish());
  }

  // One call to its end.
  void Run(const SteadyCall& call) {
    operations_.clear();
    for (int r = 0; r < kWorld; ++r) {
      auto operation = call.start(*comms_[r], send_[r].data(), recv_[r].data());
      ASSERT_TRUE(operation.ok());
      operations_.push_back(*operation);
    }
    bool done = false;
    while (!done) {
      done = true;
      for (Operation& operation : operations_) done &= operation.Poll();
    }
    for (const Operation& operation : operations_) ASSERT_TRUE(operation.status().ok());
  }

  SimWorld world_;
  std::vector<std::unique_ptr<Communicator>> comms_;
  std::vector<std::vector<std::byte>> send_;
  std::vector<std::vector<std::byte>> recv_;
  std::vector<Operation> operations_;
};

TEST(AllocationTest, CounterCounts) {
  BeginCountingAllocations();
  auto something = std::make_unique<std::vector<int>>(10);
  EXPECT_EQ(CountedAllocations().news, 2);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  void* volatile memory = std::malloc(100);
  memory = std::realloc(memory, 200);
  std::free(memory);
  EXPECT_EQ(CountedAllocations().mallocs, 2);
  void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(page, 4096);
  EXPECT_EQ(CountedAllocations().mappings, 1);
#endif
  EXPECT_EQ(CountedAllocations().of_ucx, 0);
}

TEST(AllocationTest, EveryCollective) {
  for (const SteadyCall& call : SteadyCalls(kWorld)) SteadyState().ExpectNoAllocation(call);
}

TEST(AllocationTest, EveryAlgorithm) {
  for (const SteadyCall& call : SteadyCalls(kWorld)) {
    for (const AlgorithmTraits& traits : AllAlgorithms()) {
      if (NameOf(traits.collective) != call.name) continue;
      CommunicatorOptions options;
      options.numeric_mode = NumericMode::kFast;
      options.algorithms = absl::StrCat(call.name, ":", std::string(NameOf(traits.algorithm)));
      SCOPED_TRACE(options.algorithms);
      SteadyState(options).ExpectNoAllocation(call);
    }
  }
}

TEST(AllocationTest, EveryCollectiveOnSeveralHosts) {
  for (const SteadyCall& call : SteadyCalls(kWorld)) {
    CommunicatorOptions options;
    options.numeric_mode = NumericMode::kFast;
    SteadyState(options, {0, 1, 1, 0}).ExpectNoAllocation(call);
    SteadyState(options, {0, 1, 1, 1}).ExpectNoAllocation(call);
  }
}

}  // namespace
}  // namespace rz
