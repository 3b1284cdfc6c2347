// A step that is taken allocates nothing after the first: counted at operator new.
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "runtime/base/status_matchers.h"

namespace {
int64_t allocations = 0;
}

void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace rz {
namespace {

using ::rz::testing::SimRanks;

// A step with passes over two units, their gradients announced.
absl::Status AnnouncedStep(ZeroOptimizer& optimizer, absl::Span<const float> gradient) {
  for (const size_t unit : {0, 1}) {
    if (absl::Status status = optimizer.Gather(unit, Pass::kForward); !status.ok()) return status;
    if (absl::Status status = optimizer.Release(unit, Pass::kForward); !status.ok()) return status;
  }
  for (const size_t unit : {1, 0}) {
    if (absl::Status status = optimizer.Gather(unit, Pass::kBackward); !status.ok()) return status;
    if (absl::Status status = optimizer.AddGradient(unit, gradient); !status.ok()) return status;
    if (absl::Status status = optimizer.Release(unit, Pass::kBackward); !status.ok()) return status;
  }
  return optimizer.Step({}).status();
}

TEST(StepAllocationTest, StepsAfterTheFirstAllocateNothing) {
  const std::vector<float> gradient(1000);
  for (const ZeroStage stage :
       {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree}) {
    for (const bool announced : {false, true}) {
      if (!announced && !HoldsWholeGradients(stage)) continue;
      ZeroConfig config;
      config.stage = stage;
      config.tile_chunk = 32;
      config.reduce_bucket_size = 1;
      config.announce_gradients = announced;
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<SimRanks> ranks,
                           SimRanks::Create(1, "", {{"w", {1000}, 0}, {"v", {1000}, 1}}, config));
      ZeroOptimizer& optimizer = ranks->optimizer(0);
      ASSERT_OK(optimizer.Initialize([](size_t, absl::Span<float>) {}));
      for (int step = 1; step <= 5; ++step) {
        const int64_t before = allocations;
        const absl::Status result =
            announced ? AnnouncedStep(optimizer, gradient) : optimizer.Step({}).status();
        const int64_t after = allocations;
        ASSERT_OK(result);
        if (step > 1) {
          EXPECT_EQ(after, before) << "stage " << stage << ", step " << step;
        }
      }
    }
  }
}

// Units of which the second uses what the first holds, with two groups and a frozen parameter.
TEST(StepAllocationTest, NorDoGroupsFrozenAndTiedParameters) {
  const std::vector<float> gradient(1000);
  const std::vector<ParamSpec> specs = {{"w", {1000}, 0},
                                        {"f", {70}, 0, 1, true},
                                        {"v", {1000}, 1, 1},
                                        {"t", {1000}, 1, 0, false, "w"}};
  for (const ZeroStage stage :
       {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree}) {
    ZeroConfig config;
    config.stage = stage;
    config.tile_chunk = 32;
    config.reduce_bucket_size = 1;
    config.announce_gradients = true;
    config.communication_dtype = DType::kFloat32;
    config.groups = {{}, {.weight_decay = 0}};
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<SimRanks> ranks, SimRanks::Create(1, "", specs, config));
    ZeroOptimizer& optimizer = ranks->optimizer(0);
    ASSERT_OK(optimizer.Initialize([](size_t, absl::Span<float>) {}));
    for (int step = 1; step <= 4; ++step) {
      const int64_t before = allocations;
      absl::Status result;
      for (const size_t unit : {0, 1}) {
        result.Update(optimizer.Gather(unit, Pass::kForward));
        result.Update(optimizer.Release(unit, Pass::kForward));
      }
      for (const size_t unit : {1, 0}) {
        result.Update(optimizer.Gather(unit, Pass::kBackward));
        if (unit == 1) result.Update(optimizer.AddGradient(3, gradient));
        result.Update(optimizer.AddGradient(2 * unit, gradient));
        result.Update(optimizer.Release(unit, Pass::kBackward));
      }
      result.Update(optimizer.Step({}).status());
      const int64_t after = allocations;
      ASSERT_OK(result);
      if (step > 1) {
        EXPECT_EQ(after, before) << "stage " << stage << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace rz
