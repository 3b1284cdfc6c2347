// Random collectives against the sequential oracle, over SimWorld: every case draws the world, the
// calls, their dtypes, ops, counts, roots, tiles and places, the numeric mode, algorithms, slices,
// and how messages travel, from one seed.
//
// RZ_PROPERTY_SEED=n runs that case alone.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/algorithm.h"
#include "collectives/communicator.h"
#include "collectives/testing/collective_case.h"
#include "collectives/testing/sim_calls.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
using ::rz::testing::SimJob;

constexpr uint64_t kCases = 8000;
constexpr int kLargestWorld = 16;
constexpr int64_t kLargestCount = 600;
constexpr uint64_t kLargeOneIn = 19;
constexpr int64_t kLarge = 10'000;

// How often each thing was drawn, by a name.
class Coverage {
 public:
  void Add(const JobCase& job) {
    ++seen_[absl::StrCat("world ", job.world)];
    for (const CollectiveCase& call : job.calls) Add(call, job);
  }

  void Expect(const std::string& what, int times) const {
    const auto at = seen_.find(what);
    EXPECT_GE(at == seen_.end() ? 0 : at->second, times) << what;
  }

 private:
  void Add(const CollectiveCase& call, const JobCase& job) {
    const std::string name(NameOf(call.collective));
    ++seen_[name];
    ++seen_[absl::StrCat(name, ":",
                         std::string(NameOf(AlgorithmOf(call, job.world, job.options))))];
    if (call.has_counts) ++seen_[absl::StrCat(name, "_v")];
    if (call.in_place) ++seen_[absl::StrCat(name, " in place")];
    if (call.tile_chunk > 0) ++seen_[absl::StrCat(name, " in tiles")];
    if (call.collective == Collective::kBarrier) return;
    ++seen_[absl::StrCat("misaligned by ", call.misalignment)];
    if (IsReduction(call.collective)) {
      ++seen_[absl::StrCat(std::string(NameOf(call.dtype)), " ", std::string(NameOf(call.op)))];
      if (call.by_function) {
        ++seen_[absl::StrCat(std::string(NameOf(call.dtype)), " by a function")];
        ++seen_[absl::StrCat(name, ":",
                             std::string(NameOf(AlgorithmOf(call, job.world, job.options))),
                             " by a function")];
      }
    } else {
      ++seen_[absl::StrCat("moved ", std::string(NameOf(call.dtype)))];
    }
    if (call.has_counts) return;
    if (call.count <= 1) ++seen_[absl::StrCat("count ", call.count)];
    if (call.count > 0 && call.count < job.world) ++seen_["count below the world"];
    if (call.count == 97 || call.count == 211 || call.count == 499) ++seen_["prime count"];
    if (call.count > 1000) ++seen_["large count"];
  }

  std::map<std::string, int> seen_;
};

void RunCase(uint64_t seed, Coverage& covered) {
  const JobCase c = DrawJobCase(seed, 1 + static_cast<int>(seed % kLargestWorld),
                                seed % kLargeOneIn == 0 ? kLarge : kLargestCount);
  covered.Add(c);
  SCOPED_TRACE(c.ToString());
  constexpr SendMode kModes[] = {SendMode::kEager, SendMode::kRendezvous, SendMode::kMixed};
  JobCalls calls;
  for (const auto& call : c.calls) calls.push_back(MakeRankCalls(call, c.world, c.options));
  SimJob job(c.world, {.seed = seed, .send_mode = kModes[seed / kLargestWorld % 3]}, c.options);
  RunAndCheck(job, calls);
}

// The draw must not leave out what the test is for.
void ExpectAllWasDrawn(const Coverage& covered) {
  for (int world = 1; world <= kLargestWorld; ++world) {
    covered.Expect(absl::StrCat("world ", world), 200);
  }
  for (Collective collective : kAllCollectives) {
    const std::string name(NameOf(collective));
    covered.Expect(name, 500);
    if (HasVariant(collective)) covered.Expect(absl::StrCat(name, "_v"), 200);
    if (collective == Collective::kBarrier || collective == Collective::kAllToAll) continue;
    covered.Expect(absl::StrCat(name, " in place"), 100);
    covered.Expect(absl::StrCat(name, " in tiles"), 100);
  }
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    covered.Expect(absl::StrCat(std::string(NameOf(traits.collective)), ":",
                                std::string(NameOf(traits.algorithm))),
                   40);
    if (!IsReduction(traits.collective)) continue;
    covered.Expect(absl::StrCat(std::string(NameOf(traits.collective)), ":",
                                std::string(NameOf(traits.algorithm)), " by a function"),
                   10);
  }
  for (DType dtype : kAllDTypes) {
    covered.Expect(absl::StrCat("moved ", std::string(NameOf(dtype))), 100);
    covered.Expect(absl::StrCat(std::string(NameOf(dtype)), " by a function"), 50);
    for (ReduceOp op : kAllReduceOps) {
      if (op == ReduceOp::kAvg && !IsFloating(dtype)) continue;
      covered.Expect(absl::StrCat(std::string(NameOf(dtype)), " ", std::string(NameOf(op))), 15);
    }
  }
  for (const char* count :
       {"count 0", "count 1", "count below the world", "prime count", "large count"}) {
    covered.Expect(count, 50);
  }
  for (int bytes = 0; bytes < 8; ++bytes) {
    covered.Expect(absl::StrCat("misaligned by ", bytes), 300);
  }
}

TEST(CollectivePropertyTest, RandomCollectivesMatchTheOracleBitForBit) {
  Coverage covered;
  if (const char* seed = std::getenv("RZ_PROPERTY_SEED"); seed != nullptr) {
    RunCase(std::strtoull(seed, nullptr, 10), covered);
    return;
  }
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RunCase(seed, covered);
    if (::testing::Test::HasFailure()) return;
  }
  ExpectAllWasDrawn(covered);
}

}  // namespace
}  // namespace rz
