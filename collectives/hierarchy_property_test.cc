// Random collectives among ranks on several hosts, some of which share memory, against the
// sequential oracle, over SimWorld: every case draws the placement of the ranks beside what
// property_test.cc draws.
//
// RZ_PROPERTY_SEED=n runs that case alone.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/algorithm.h"
#include "collectives/communicator.h"
#include "collectives/hierarchy/host_map.h"
#include "collectives/testing/collective_case.h"
#include "collectives/testing/sim_calls.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::AlgorithmOf;
using ::rz::testing::CollectiveCase;
using ::rz::testing::DrawJobCase;
using ::rz::testing::JobCalls;
using ::rz::testing::JobCase;
using ::rz::testing::MakeRankCalls;
using ::rz::testing::RunAndCheck;
using ::rz::testing::Sharing;
using ::rz::testing::SimJob;

constexpr uint64_t kCases = 2000;
constexpr int kLargestWorld = 9;
constexpr int64_t kLargestCount = 3000;
constexpr size_t kSlotBytes[] = {64 * kLargestWorld, 4096};

std::vector<int> DrawHosts(uint64_t seed, int world) {
  std::mt19937_64 random(seed);
  const uint64_t kind = random() % 6;
  const uint64_t hosts = 2 + random() % 3;
  std::vector<int> host_of;
  for (int r = 0; r < world; ++r) {
    switch (kind) {
      case 0:  // one alone, the others together
        host_of.push_back(r == 0 ? 0 : 1);
        break;
      case 1:  // two here, the others there
        host_of.push_back(r < 2 ? 0 : 1);
        break;
      case 2:  // in turn
        host_of.push_back(r % static_cast<int>(hosts));
        break;
      case 3:
        host_of.push_back(seed % 5 == 0 ? r : r / 2);
        break;
      default:
        host_of.push_back(static_cast<int>(random() % hosts));
    }
  }
  return host_of;
}

// Asks for kHierarchical wherever the modes let it be.
std::string AskForStages(const JobCase& job) {
  std::map<Collective, bool> can;
  for (const CollectiveCase& call : job.calls) {
    const AlgorithmTraits* const traits = HierarchicalTraitsOf(call.collective);
    if (traits == nullptr) continue;
    const bool fits = traits->canonical || (job.options.numeric_mode == NumericMode::kFast &&
                                            call.mode == NumericMode::kFast);
    can.emplace(call.collective, true).first->second &= fits;
  }
  std::vector<std::string> tokens;
  for (const auto& [collective, fits] : can) {
    if (fits) tokens.push_back(absl::StrCat(std::string(NameOf(collective)), ":hierarchical"));
  }
  return absl::StrJoin(tokens, ",");
}

void RunCase(uint64_t seed, std::map<std::string, int>& covered) {
  const int world = 2 + static_cast<int>(seed % (kLargestWorld - 1));
  JobCase c = DrawJobCase(seed, world, kLargestCount);
  const std::vector<int> hosts = DrawHosts(seed, world);
  const HostMap map(hosts);
  c.options.shared_slot_bytes = kSlotBytes[seed % 2];
  c.options.algorithms = seed % 4 == 0 || !map.is_hierarchy() ? "" : AskForStages(c);
  SCOPED_TRACE(absl::StrCat(c.ToString(), "; hosts ", absl::StrJoin(hosts, " ")));
  const bool shared = map.hosts() == 1;
  const Sharing sharing = shared ? Sharing(true) : Sharing(hosts);
  JobCalls calls;
  for (const auto& call : c.calls) {
    calls.push_back(MakeRankCalls(call, world, c.options, sharing));
    if (AlgorithmOf(call, world, c.options, sharing) != Algorithm::kHierarchical) continue;
    ++covered[absl::StrCat(std::string(NameOf(call.collective)), call.has_counts ? "_v" : "")];
    if (call.in_place) ++covered["in place"];
    if (call.tile_chunk > 0) ++covered["in tiles"];
    if (map.columns() == 1) ++covered["one column"];
    if (map.columns() < map.largest_host()) ++covered["hosts of several sizes"];
  }
  constexpr SendMode kModes[] = {SendMode::kEager, SendMode::kRendezvous, SendMode::kMixed};
  SimJob job(world,
             {.seed = seed, .send_mode = kModes[seed % 3], .idle_polls = 1000, .hosts = hosts},
             c.options);
  ASSERT_OK_AND_ASSIGN(const bool all_share, job.ShareMemory());
  ASSERT_EQ(all_share, shared);
  for (size_t i = 0; i < calls.size(); ++i) {
    for (int r = 0; r < world && (seed + i) % 3 > 0; ++r) {
      if ((seed + i) % 3 == 2 && r % 2 == 0) continue;
      ASSERT_OK(calls[i][r]->UseBufferOf(job.comm(r)));
    }
  }
  RunAndCheck(job, calls);
}

TEST(HierarchyPropertyTest, RandomCollectivesMatchTheOracleBitForBit) {
  std::map<std::string, int> covered;
  if (const char* seed = std::getenv("RZ_PROPERTY_SEED"); seed != nullptr) {
    RunCase(std::strtoull(seed, nullptr, 10), covered);
    return;
  }
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RunCase(seed, covered);
    if (::testing::Test::HasFailure()) return;
  }
  for (const char* what :
       {"all_reduce", "reduce_scatter", "reduce_scatter_v", "all_gather", "all_gather_v", "reduce",
        "broadcast", "barrier", "in place", "in tiles", "one column", "hosts of several sizes"}) {
    EXPECT_GE(covered[what], 50) << what;
  }
}

}  // namespace
}  // namespace rz
