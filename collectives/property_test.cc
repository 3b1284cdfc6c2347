// Random collectives against the sequential oracle, over SimWorld: every case draws the world, the
// calls, their dtypes, ops, counts, roots, tiles and places, the numeric mode, algorithms, slices,
// and how messages travel, from one seed.
//
// RZ_PROPERTY_SEED=n runs that case alone.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/testing/collective_case.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::DrawJobCase;
using ::rz::testing::IsOk;
using ::rz::testing::JobCase;
using ::rz::testing::MakeRankCalls;
using ::rz::testing::RankCall;
using ::rz::testing::SimJob;

constexpr uint64_t kCases = 4000;
constexpr int kLargestWorld = 16;
constexpr int64_t kLargestCount = 600;

void RunCase(uint64_t seed, std::map<Collective, int>& covered) {
  const JobCase c = DrawJobCase(seed, 1 + static_cast<int>(seed % kLargestWorld), kLargestCount);
  SCOPED_TRACE(c.ToString());
  constexpr SendMode kModes[] = {SendMode::kEager, SendMode::kRendezvous, SendMode::kMixed};
  std::vector<std::vector<std::unique_ptr<RankCall>>> calls;
  for (const auto& call : c.calls) {
    calls.push_back(MakeRankCalls(call, c.world, c.options));
    ++covered[call.collective];
  }
  SimJob job(c.world, {.seed = seed, .send_mode = kModes[seed / kLargestWorld % 3]}, c.options);
  ASSERT_THAT(job.Run(static_cast<int>(calls.size()),
                      [&](int rank, int i) { return calls[i][rank]->Start(job.comm(rank)); }),
              IsOk());
  for (int r = 0; r < c.world; ++r) {
    ASSERT_THAT(job.results()[r], IsOk()) << "rank " << r;
    for (size_t i = 0; i < calls.size(); ++i) {
      ASSERT_EQ(calls[i][r]->Check(), "") << "rank " << r << ", operation " << i;
    }
  }
}

TEST(CollectivePropertyTest, RandomCollectivesMatchTheOracleBitForBit) {
  std::map<Collective, int> covered;
  if (const char* seed = std::getenv("RZ_PROPERTY_SEED"); seed != nullptr) {
    RunCase(std::strtoull(seed, nullptr, 10), covered);
    return;
  }
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RunCase(seed, covered);
    if (::testing::Test::HasFailure()) return;
  }
  for (Collective collective : kAllCollectives) EXPECT_GE(covered[collective], 500) << collective;
}

}  // namespace
}  // namespace rz
