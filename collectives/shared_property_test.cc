// Random collectives among ranks that share memory, against the sequential oracle, over SimWorld,
// which polls the ranks in drawn orders; with those that travel as messages in between.
//
// RZ_PROPERTY_SEED=n runs that case alone.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/testing/collective_case.h"
#include "collectives/testing/sim_calls.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::DrawJobCase;
using ::rz::testing::JobCalls;
using ::rz::testing::JobCase;
using ::rz::testing::MakeRankCalls;
using ::rz::testing::RunAndCheck;
using ::rz::testing::SimJob;

constexpr uint64_t kCases = 2000;
constexpr int kLargestWorld = 9;
constexpr int64_t kLargestCount = 6000;
// So many elements are copied out of their process where they are only moved.
constexpr uint64_t kLargeOneIn = 23;
constexpr int64_t kLarge = 300'000;

// Slots so small that calls take many steps, and such that one holds all.
constexpr size_t kSlotBytes[] = {64 * kLargestWorld, 4096, 256 << 10};

void RunCase(uint64_t seed, std::map<Collective, int>& covered) {
  JobCase c = DrawJobCase(seed, 1 + static_cast<int>(seed % kLargestWorld),
                          seed % kLargeOneIn == 0 ? kLarge : kLargestCount);
  c.options.shared_slot_bytes = kSlotBytes[seed / kLargestWorld % 3];
  c.options.shared_fetch = seed / 3 % 2 == 0;
  // Every other job leaves the choice to us: shared memory wherever it can be.
  if (seed % 2 == 0) c.options.algorithms.clear();
  SCOPED_TRACE(c.ToString());
  JobCalls calls;
  for (const auto& call : c.calls) {
    calls.push_back(MakeRankCalls(call, c.world, c.options, /*shares_memory=*/true));
    ++covered[call.collective];
  }
  // Some steps change nothing that others see: a deadlock is when many polls do not.
  SimJob job(c.world, {.seed = seed, .idle_polls = seed % kLargeOneIn == 0 ? 20'000 : 1000},
             c.options);
  ASSERT_OK_AND_ASSIGN(const bool shared, job.ShareMemory());
  ASSERT_TRUE(shared);
  // The bound that docs/tuning.md states, whatever is called.
  EXPECT_GE(job.comm(0).shared_scratch_bytes(), 8 * c.options.shared_slot_bytes);
  EXPECT_LE(job.comm(0).shared_scratch_bytes(), 8 * c.options.shared_slot_bytes + (80 << 10));
  // Buffers that others reach: of all ranks, of none, and of some.
  for (size_t i = 0; i < calls.size(); ++i) {
    const uint64_t which = (seed >> 2) + i;
    for (int r = 0; r < c.world && which % 3 > 0; ++r) {
      if (which % 3 == 2 && r % 2 == 0) continue;
      ASSERT_OK(calls[i][r]->UseBufferOf(job.comm(r)));
    }
  }
  RunAndCheck(job, calls);
}

TEST(SharedPropertyTest, RandomCollectivesMatchTheOracleBitForBit) {
  std::map<Collective, int> covered;
  if (const char* seed = std::getenv("RZ_PROPERTY_SEED"); seed != nullptr) {
    RunCase(std::strtoull(seed, nullptr, 10), covered);
    return;
  }
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RunCase(seed, covered);
    if (::testing::Test::HasFailure()) return;
  }
  for (Collective collective : kAllCollectives) EXPECT_GE(covered[collective], 200) << collective;
}

}  // namespace
}  // namespace rz
