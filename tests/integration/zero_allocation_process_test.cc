// A step that is taken allocates nothing of ours after the first few, between real processes: the
// ways that need several ranks. optimizer/step_allocation_test.cc has the others.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/testing/allocation_counter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_macros.h"
#include "tests/integration/process_job.h"

namespace rz {
namespace {

using ::rz::testing::AllocationCounts;
using ::rz::testing::BeginCountingAllocations;
using ::rz::testing::CountedAllocations;
using ::rz::testing::RunInProcesses;
using ::testing::Each;

constexpr int64_t kElements = 20'000;  // of a unit
constexpr int kWarmUp = 50;
constexpr int kSteps = 100;

ZeroConfig Config() {
  ZeroConfig config;
  config.stage = ZeroStage::kOne;
  config.announce_gradients = true;
  config.overlap_communication = true;
  config.reduce_bucket_size = 4096;
  config.progress_thread = ProgressThreadUse::kOff;
  return config;
}

absl::Status Step(ZeroOptimizer& optimizer, absl::Span<const float> gradient) {
  for (const size_t unit : {0, 1}) {
    RZ_RETURN_IF_ERROR(optimizer.Gather(unit, Pass::kForward));
    RZ_RETURN_IF_ERROR(optimizer.Release(unit, Pass::kForward));
  }
  for (const size_t unit : {1, 0}) {
    RZ_RETURN_IF_ERROR(optimizer.Gather(unit, Pass::kBackward));
    RZ_RETURN_IF_ERROR(optimizer.AddGradient(unit, gradient));
    RZ_RETURN_IF_ERROR(optimizer.Release(unit, Pass::kBackward));
  }
  return optimizer.Step({}).status();
}

// "" where nothing was allocated.
std::string CountSteps(Transport* transport, bool shares_memory, const ZeroConfig& config) {
  const auto count = [&]() -> absl::StatusOr<AllocationCounts> {
    RZ_ASSIGN_OR_RETURN(const auto comm, Communicator::Create(transport, {}));
    if (shares_memory) RZ_RETURN_IF_ERROR(comm->ShareMemory());
    RZ_ASSIGN_OR_RETURN(
        const auto optimizer,
        ZeroOptimizer::Create(comm.get(), {{"w", {kElements}, 0}, {"v", {kElements}, 1}}, config));
    RZ_RETURN_IF_ERROR(optimizer->Initialize(
        [](size_t, absl::Span<float> values) { std::ranges::fill(values, 1.0F); }));
    const std::vector<float> gradient(kElements, 0.5F);
    for (int i = 0; i < kWarmUp; ++i) RZ_RETURN_IF_ERROR(Step(*optimizer, gradient));
    BeginCountingAllocations();
    for (int i = 0; i < kSteps; ++i) RZ_RETURN_IF_ERROR(Step(*optimizer, gradient));
    const AllocationCounts counted = CountedAllocations();
    // The news of a rank that leaves is for none that still counts.
    RZ_RETURN_IF_ERROR(comm->Barrier());
    return counted;
  };
  const absl::StatusOr<AllocationCounts> counted = count();
  if (!counted.ok()) return counted.status().ToString();
  // Scratch memory, which is mapped, grows when an operation first finds a place of a smaller one.
  return counted->news + counted->mallocs == 0 ? "" : counted->ToString();
}

std::vector<std::string> AllocationsOf(int world, bool shares_memory, const ZeroConfig& config) {
  // UCX would replace mmap by its own, and with it what counts here.
  setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
  UcxOptions ucx;
  ucx.transports = UcxOptions::Transports::kSharedMemory;
  return RunInProcesses(world, ucx, [&](Transport* transport) {
    return CountSteps(transport, shares_memory, config);
  });
}

TEST(ZeroAllocationProcessTest, StepsWhoseGathersGoOnBehindThem) {
  ZeroConfig config = Config();
  config.gather_behind_forward = true;
  EXPECT_THAT(AllocationsOf(3, /*shares_memory=*/false, config), Each(""));
}

TEST(ZeroAllocationProcessTest, FusedSteps) {
  for (const bool inspected : {true, false}) {
    ZeroConfig config = Config();
    config.fuse_step = true;
    config.inspect_gradients = inspected;
    EXPECT_THAT(AllocationsOf(2, /*shares_memory=*/true, config), Each("")) << inspected;
  }
}

TEST(ZeroAllocationProcessTest, StepsOfGroupsOfRanks) {
  for (const ZeroStage stage : {ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree}) {
    ZeroConfig config = Config();
    config.stage = stage;
    config.shard_group_size = 2;
    EXPECT_THAT(AllocationsOf(4, /*shares_memory=*/false, config), Each("")) << stage;
  }
}

}  // namespace
}  // namespace rz
