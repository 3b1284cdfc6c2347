#include "collectives/plan_memory.h"

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

PlannedCall PlanOf(int64_t count) {
  PlannedCall planned;
  planned.plan.count = count;
  return planned;
}

class NoKernel : public ShardKernel {
 public:
  void Run(int64_t, int64_t, void*) override {}
};

TEST(PlanMemoryTest, FindsThePlanOfACallThatDiffersInItsBuffersAlone) {
  PlanMemory memory;
  Call call = {.collective = Collective::kAllReduce, .count = 7};
  EXPECT_EQ(memory.Find(call, 1), nullptr);
  memory.Keep(call, 1, PlanOf(7));
  float buffer = 0;
  call.send = call.recv = &buffer;
  ASSERT_NE(memory.Find(call, 1), nullptr);
  EXPECT_EQ(memory.Find(call, 1)->plan.count, 7);
  EXPECT_EQ(memory.Find(call, 2), nullptr) << "plans may have changed";
}

TEST(PlanMemoryTest, AnythingElseThatDiffersIsAnotherCall) {
  NoKernel kernel;
  const std::function<void(Call&)> changes[] = {
      [](Call& c) { c.collective = Collective::kReduce; },
      [](Call& c) { c.count = 8; },
      [](Call& c) { c.dtype = DType::kInt32; },
      [](Call& c) { c.op = ReduceOp::kMax; },
      [](Call& c) { c.root = Rank(1); },
      [](Call& c) { c.options.tile_chunk = 64; },
      [](Call& c) { c.options.numeric_mode = NumericMode::kFast; },
      [&](Call& c) { c.options.kernel = &kernel; },
      [](Call& c) { c.has_counts = true; },
      [](Call& c) { c.op = ReduceOp::kPremulSum; },
  };
  PlanMemory memory;
  const Call call = {.collective = Collective::kAllReduce, .count = 7};
  memory.Keep(call, 1, PlanOf(7));
  for (size_t i = 0; i < std::size(changes); ++i) {
    Call other = call;
    changes[i](other);
    EXPECT_EQ(memory.Find(other, 1), nullptr) << "change " << i;
  }
}

TEST(PlanMemoryTest, KeepsNothingThatRefersToTheCaller) {
  PlanMemory memory;
  Call call = {.collective = Collective::kAllGather, .has_counts = true};
  memory.Keep(call, 1, PlanOf(1));
  EXPECT_EQ(memory.Find(call, 1), nullptr);
  for (ReduceOp op : {ReduceOp::kPremulSum, ReduceOp::kFunction}) {
    call = {.collective = Collective::kAllReduce, .op = op};
    memory.Keep(call, 1, PlanOf(1));
    EXPECT_EQ(memory.Find(call, 1), nullptr);
  }
}

TEST(PlanMemoryTest, ForgetsTheOldest) {
  PlanMemory memory;
  for (int64_t count = 0; count < 20; ++count) {
    memory.Keep({.collective = Collective::kAllReduce, .count = count}, 1, PlanOf(count));
  }
  EXPECT_EQ(memory.Find({.collective = Collective::kAllReduce, .count = 0}, 1), nullptr);
  const PlannedCall* const last =
      memory.Find({.collective = Collective::kAllReduce, .count = 19}, 1);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->plan.count, 19);
}

}  // namespace
}  // namespace rz
