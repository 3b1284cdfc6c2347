// In the steady state nothing is allocated: this binary counts every operator new and every byte of
// scratch while collectives are repeated. Messages go by rendezvous, so that the simulated wires
// copy nothing either.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
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

// Ranks that repeat one collective, stepped in turn.
class SteadyState {
 public:
  explicit SteadyState(CommunicatorOptions options = {}) {
    options.slice_bytes = 512;
    options.clock = world_.clock();
    Stretcher stretched(&world_);
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

TEST(AllocationTest, ReduceGatherAndScatter) {
  SteadyState state;
  state.ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    return comm.StartReduce(send, recv, kCount, DType::kBFloat16, ReduceOp::kSum, Rank(1));
  });
  state.ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    return comm.StartGather(send, recv, kCount, DType::kBFloat16, Rank(1));
  });
  state.ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    return comm.StartScatter(send, recv, kCount, DType::kBFloat16, Rank(1));
  });
}

TEST(AllocationTest, AllToAll) {
  SteadyState().ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    return comm.StartAllToAll(send, recv, kCount / kWorld, DType::kBFloat16);
  });
}

TEST(AllocationTest, VariantsWithCounts) {
  static constexpr int64_t kCounts[kWorld] = {100, 0, 2001, 900};
  // The count of a pair: of the ranks' distance, so that both sides know it.
  static constexpr int64_t kPairs[kWorld][kWorld] = {
      {5, 100, 0, 700}, {700, 5, 100, 0}, {0, 700, 5, 100}, {100, 0, 700, 5}};
  static constexpr int64_t kFrom[kWorld][kWorld] = {
      {5, 700, 0, 100}, {100, 5, 700, 0}, {0, 100, 5, 700}, {700, 0, 100, 5}};
  SteadyState state;
  state.ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    return comm.StartReduceScatterV(send, recv, kCounts, DType::kBFloat16, ReduceOp::kSum);
  });
  state.ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    return comm.StartAllGatherV(send, recv, kCounts, DType::kBFloat16);
  });
  state.ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    const int r = comm.rank().value();
    return comm.StartAllToAllV(send, kPairs[r], recv, kFrom[r], DType::kBFloat16);
  });
}

TEST(AllocationTest, Messages) {
  SteadyState().ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    const int r = comm.rank().value();
    // Its end is not waited for: that of the receive it meets says as much.
    EXPECT_TRUE(comm.StartSend(send, kCount, DType::kBFloat16, Rank((r + 1) % kWorld)).ok());
    return comm.StartRecv(recv, kCount, DType::kBFloat16, Rank((r + kWorld - 1) % kWorld));
  });
}

TEST(AllocationTest, Groups) {
  SteadyState().ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
    Call calls[4];
    for (int i = 0; i < 4; ++i) {
      calls[i].collective = i < 3 ? Collective::kAllReduce : Collective::kAllGather;
      calls[i].dtype = DType::kBFloat16;
      calls[i].count = 100;
      calls[i].send = static_cast<const uint16_t*>(send) + 100 * i;
      calls[i].recv = static_cast<uint16_t*>(recv) + 100 * i;
    }
    return comm.StartGroup(calls);
  });
}

// Whatever carries it.
TEST(AllocationTest, EveryAlgorithmOfAllReduce) {
  for (const char* algorithm : {"ring", "pairwise", "bruck", "halving"}) {
    CommunicatorOptions options;
    options.numeric_mode = NumericMode::kFast;
    options.algorithms = std::string("all_reduce:") + algorithm;
    SteadyState(options).ExpectNoAllocation([](Communicator& comm, const void* send, void* recv) {
      return comm.StartAllReduce(send, recv, 300, DType::kBFloat16, ReduceOp::kSum);
    });
  }
}

}  // namespace
}  // namespace rz
