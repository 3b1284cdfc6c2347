// A step that is taken allocates nothing after the first: counted at operator new.
#include <cstdlib>
#include <memory>
#include <new>

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

TEST(StepAllocationTest, StepsAfterTheFirstAllocateNothing) {
  for (const ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne}) {
    ZeroConfig config;
    config.stage = stage;
    config.tile_chunk = 32;
    config.reduce_bucket_size = 1;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<SimRanks> ranks,
                         SimRanks::Create(1, "", {{"w", {1000}}}, config));
    ZeroOptimizer& optimizer = ranks->optimizer(0);
    ASSERT_OK(optimizer.Initialize([](size_t, absl::Span<float>) {}));
    for (int step = 1; step <= 5; ++step) {
      const int64_t before = allocations;
      const bool started = optimizer.StartStep({}).ok();
      while (!optimizer.Poll()) {
      }
      const int64_t after = allocations;
      ASSERT_TRUE(started);
      if (step > 1) {
        EXPECT_EQ(after, before) << "stage " << stage << ", step " << step;
      }
      ASSERT_OK(optimizer.StepResult().status());
    }
  }
}

}  // namespace
}  // namespace rz
