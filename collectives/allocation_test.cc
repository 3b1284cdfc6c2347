// In the steady state nothing is allocated: this binary counts every operator new and every byte of
// scratch while collectives are repeated. Messages go by rendezvous, so that the simulated wires
// copy nothing either.
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "collectives/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/memory/memory.h"
#include "runtime/transport/sim/sim_world.h"

namespace {

int64_t allocations = 0;

}  // namespace

void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace rz {
namespace {

constexpr int kWorld = 4;
constexpr int64_t kCount = 3001;
constexpr int kWarmUp = 300;
constexpr int kCalls = 1000;

// Ranks that repeat one collective, stepped in turn.
class SteadyState {
 public:
  SteadyState() {
    CommunicatorOptions options;
    options.slice_bytes = 512;
    options.clock = world_.clock();
    for (int r = 0; r < kWorld; ++r) {
      auto comm = Communicator::Create(world_.transport(Rank(r)), options);
      EXPECT_OK(comm);
      comms_.push_back(*std::move(comm));
      send_.emplace_back(kCount);
      recv_.emplace_back(kCount);
    }
    operations_.reserve(kWorld);
  }

  // Runs one call to its end. `start` takes (communicator, send, recv).
  template <typename Start>
  void Call(const Start& start) {
    operations_.clear();
    for (int r = 0; r < kWorld; ++r) {
      auto operation = start(*comms_[r], send_[r].data(), recv_[r].data());
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

  template <typename Start>
  void ExpectNoAllocation(const Start& start) {
    for (int i = 0; i < kWarmUp; ++i) Call(start);
    const int64_t before = allocations;
    const size_t scratch = MemoryLedger::Default()->Current(MemoryTag::kScratch);
    for (int i = 0; i < kCalls; ++i) Call(start);
    EXPECT_EQ(allocations - before, 0);
    EXPECT_EQ(MemoryLedger::Default()->Current(MemoryTag::kScratch), scratch);
  }

 private:
  SimWorld world_{kWorld, {.send_mode = SendMode::kRendezvous}};
  std::vector<std::unique_ptr<Communicator>> comms_;
  std::vector<std::vector<uint16_t>> send_;
  std::vector<std::vector<uint16_t>> recv_;
  std::vector<Operation> operations_;
};

TEST(AllocationTest, CounterCounts) {
  const int64_t before = allocations;
  auto something = std::make_unique<std::vector<int>>(10);
  EXPECT_EQ(allocations - before, 2);
}

TEST(AllocationTest, AllReduce) {
  SteadyState().ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    return comm.StartAllReduce(send, recv, kCount, DType::kBFloat16, ReduceOp::kAvg);
  });
}

TEST(AllocationTest, ReduceScatterOfTiles) {
  SteadyState().ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    return comm.StartReduceScatter(send, recv, kCount, DType::kBFloat16, ReduceOp::kSum,
                                   {.tile_chunk = 100});
  });
}

TEST(AllocationTest, AllGather) {
  SteadyState().ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    return comm.StartAllGather(send, recv, kCount, DType::kBFloat16);
  });
}

TEST(AllocationTest, BroadcastAndBarrier) {
  SteadyState state;
  state.ExpectNoAllocation([](Communicator& comm, const void*, void* recv) {
    return comm.StartBroadcast(recv, kCount, DType::kBFloat16, Rank(2));
  });
  state.ExpectNoAllocation(
      [](Communicator& comm, const void*, void*) { return comm.StartBarrier(); });
}

}  // namespace
}  // namespace rz
