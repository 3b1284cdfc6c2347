// Ranks as threads over memory of this process, so that a race detector sees every load and store
// of the protocol: calls of all sizes, many of them, with and without waiting in between.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/call_descriptor.h"
#include "collectives/kernels/reduce_kernel.h"
#include "collectives/shared/memory_only_transport.h"
#include "collectives/shared/shared_area.h"
#include "collectives/shared/shared_engine.h"
#include "collectives/shared/shared_exchange.h"
#include "collectives/shared/shared_regions.h"
#include "collectives/shared/shared_work.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::MemoryOnly;
using ::rz::testing::Regions;

// One rank: area, exchange and engine, and calls made as a communicator makes them.
class Node {
 public:
  Node(Regions* regions, int rank, int world, size_t slot_bytes)
      : transport_(regions, rank, world),
        area_(*SharedArea::Allocate(&transport_, Group(transport_), slot_bytes)) {}

  const std::string& key() const { return area_->key(); }
  void Map(const std::vector<std::string>& keys) {
    ASSERT_OK(area_->Map(keys));
    exchange_ = std::make_unique<SharedExchange>(area_.get(), 0);
    regions_ = std::make_unique<SharedRegions>(&transport_, Group(transport_), area_.get());
    engine_ = std::make_unique<SharedEngine>(area_.get(), exchange_.get(), regions_.get(),
                                             [this](int64_t, const absl::Status&) { ++finished_; });
  }

  void StartAllReduce(int32_t* values, int64_t count) {
    Plan plan;
    plan.collective = Collective::kAllReduce;
    plan.algorithm = Algorithm::kShared;
    plan.count = count;
    plan.arithmetic.dtype = DType::kInt32;
    plan.arithmetic.kernel = *GetReduceKernel(DType::kInt32, ReduceOp::kSum);
    const ChunkLayout chunks(count, area_->world(), 0);
    plan.lanes = LaneLayout(chunks, LaneLayout::kUnsliced);
    const int64_t slice =
        SharedWork::SliceElements(plan, area_->world(), area_->slot_bytes(), area_->fetches());
    plan.lanes = LaneLayout(chunks, slice);
    CallDescriptor call;
    call.number = ++number_;
    call.kind = static_cast<uint8_t>(Collective::kAllReduce);
    call.dtype = static_cast<uint8_t>(DType::kInt32);
    call.op = static_cast<uint8_t>(ReduceOp::kSum);
    call.algorithm = static_cast<uint8_t>(Algorithm::kShared);
    call.count = count;
    exchange_->BeginCall(call, HashesOf(call).history_after);
    engine_->Start(number_, plan, values, values);
    exchange_->EndCall();
  }

  void Poll() {
    exchange_->Poll();
    engine_->Poll();
    exchange_->Release(engine_->idle() ? exchange_->agreed() : engine_->oldest() - 1);
  }
  void Drain() {
    while (finished_ < number_ && exchange_->verdict().ok()) {
      Poll();
      std::this_thread::yield();
    }
  }
  int64_t pending() const { return number_ - finished_; }
  SharedExchange& exchange() { return *exchange_; }
  SharedArea& area() { return *area_; }
  const MemoryOnly& transport() const { return transport_; }

 private:
  MemoryOnly transport_;
  std::unique_ptr<SharedArea> area_;
  std::unique_ptr<SharedExchange> exchange_;
  std::unique_ptr<SharedRegions> regions_;
  std::unique_ptr<SharedEngine> engine_;
  int64_t number_ = 0;
  int64_t finished_ = 0;
};

struct Ranks {
  Ranks(int world, size_t slot_bytes) {
    std::vector<std::string> keys;
    for (int r = 0; r < world; ++r) {
      nodes.push_back(std::make_unique<Node>(&regions, r, world, slot_bytes));
      keys.push_back(nodes.back()->key());
    }
    for (auto& node : nodes) node->Map(keys);
  }

  Regions regions;
  std::vector<std::unique_ptr<Node>> nodes;
};

class SharedEngineTest : public ::testing::TestWithParam<int> {};

TEST_P(SharedEngineTest, ThreadsSumWhatTheyShare) {
  const int world = GetParam();
  Ranks ranks(world, 4096);
  constexpr int kCalls = 400;
  // Counts that go in lines, in one slot and in many.
  constexpr int64_t kCounts[] = {0, 1, 5, 28, 29, 100, 1000, 9000};
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int r = 0; r < world; ++r) {
    threads.emplace_back([&, r] {
      Node& node = *ranks.nodes[r];
      std::vector<std::vector<int32_t>> values;
      for (int i = 0; i < kCalls; ++i) {
        values.emplace_back(kCounts[i % std::size(kCounts)], r + i);
      }
      for (int i = 0; i < kCalls; ++i) {
        node.StartAllReduce(values[i].data(), static_cast<int64_t>(values[i].size()));
        // Rank by rank more or less is under way.
        while (node.pending() > r * 40) {
          node.Poll();
          std::this_thread::yield();
        }
      }
      node.Drain();
      for (int i = 0; i < kCalls; ++i) {
        const int32_t sum = world * (world - 1) / 2 + world * i;
        for (int32_t value : values[i]) wrong += value != sum;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Worlds, SharedEngineTest, ::testing::Values(1, 2, 3, 5));

TEST(SharedExchangeTest, LinesAreNotOverwrittenBeforeTheyAreReleased) {
  Ranks ranks(2, 4096);
  Node& ahead = *ranks.nodes[0];
  Node& behind = *ranks.nodes[1];
  constexpr int kCalls = kSharedLines + 40;
  for (int i = 0; i < kCalls; ++i) ahead.StartAllReduce(nullptr, 0);
  ahead.Poll();
  EXPECT_FALSE(ahead.exchange().published());
  EXPECT_EQ(ahead.exchange().DescribePeers(), "rank 1 has not called operation 1");
  for (int i = 0; i < kCalls; ++i) {
    behind.StartAllReduce(nullptr, 0);
    behind.Poll();
    ahead.Poll();
  }
  behind.Drain();
  ahead.Drain();
  EXPECT_TRUE(ahead.exchange().published());
  EXPECT_EQ(ahead.exchange().agreed(), kCalls);
  EXPECT_OK(behind.exchange().verdict());
}

TEST(SharedExchangeTest, WhoSleepsIsWokenByAStore) {
  Ranks ranks(2, 4096);
  ranks.nodes[0]->StartAllReduce(nullptr, 0);
  EXPECT_EQ(ranks.nodes[0]->transport().rung, 0);
  ranks.nodes[1]->area().header().asleep.value = 1;
  ranks.nodes[0]->StartAllReduce(nullptr, 0);
  EXPECT_EQ(ranks.nodes[0]->transport().rung, 1);
}

TEST(SharedExchangeTest, WhatCannotBeReadIsSaid) {
  Ranks ranks(2, 4096);
  int32_t value = 0;
  ranks.nodes[0]->StartAllReduce(&value, 1);
  ranks.nodes[1]->StartAllReduce(nullptr, 0);
  ranks.nodes[1]->area().header().calls[1].magic = 0;
  ranks.nodes[0]->Poll();
  EXPECT_THAT(ranks.nodes[0]->exchange().verdict(),
              testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                ::testing::HasSubstr("cannot be read")));
}

}  // namespace
}  // namespace rz
