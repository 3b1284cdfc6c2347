// 64 ranks under a thousand seeds: whatever the order of events, the same bits.
#include <cstdint>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/testing/oracle.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::IsOk;
using ::rz::testing::RandomElements;
using ::rz::testing::ReduceAll;
using ::rz::testing::Rounding;
using ::rz::testing::ShardOf;
using ::rz::testing::SimJob;

constexpr int kWorld = 64;
constexpr uint64_t kSeeds = 1000;
constexpr int64_t kCount = kWorld + 7;  // chunks of two elements and of one

TEST(ScaleTest, SixtyFourRanksUnderAThousandSeeds) {
  SimJob job(kWorld, {}, {});
  const ChunkLayout layout(kCount, kWorld, 0);
  std::vector<Bytes> inputs;
  std::vector<Bytes> half_inputs;
  for (int r = 0; r < kWorld; ++r) {
    inputs.push_back(RandomElements(DType::kFloat32, kCount, r));
    half_inputs.push_back(RandomElements(DType::kBFloat16, kCount, r));
  }
  const Bytes sum = ReduceAll(inputs, layout, DType::kFloat32, ReduceOp::kSum, Rounding::kOnce);
  const Bytes mean =
      ReduceAll(half_inputs, layout, DType::kBFloat16, ReduceOp::kAvg, Rounding::kOnce);
  std::vector<Bytes> sums(kWorld, Bytes(sum.size()));
  std::vector<Bytes> shards(kWorld);
  std::vector<Bytes> broadcast(kWorld, Bytes(sum.size()));
  for (int r = 0; r < kWorld; ++r) {
    shards[r] = ShardOf(mean, layout, Rank(r), DType::kBFloat16);
  }
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    job.world().Reseed(seed);
    const int root = static_cast<int>(seed % kWorld);
    for (int r = 0; r < kWorld; ++r) {
      std::fill(sums[r].begin(), sums[r].end(), std::byte{0});
      std::fill(shards[r].begin(), shards[r].end(), std::byte{0});
      broadcast[r] = r == root ? inputs[r] : Bytes(sum.size());
    }
    // The ring with every fourth seed: 63 hops of 64 ranks are most of the time.
    const bool ring = seed % 4 == 0;
    ASSERT_THAT(job.Run(ring ? 4 : 3,
                        [&](int r, int i) -> absl::StatusOr<Operation> {
                          Communicator& comm = job.comm(r);
                          switch (i) {
                            case 0:
                              return comm.StartReduceScatter(half_inputs[r].data(),
                                                             shards[r].data(), kCount,
                                                             DType::kBFloat16, ReduceOp::kAvg);
                            case 1:
                              return comm.StartBroadcast(broadcast[r].data(), kCount,
                                                         DType::kFloat32, Rank(root));
                            case 2:
                              return comm.StartBarrier();
                            default:
                              return comm.StartAllReduce(inputs[r].data(), sums[r].data(), kCount,
                                                         DType::kFloat32, ReduceOp::kSum);
                          }
                        }),
                IsOk());
    for (int r = 0; r < kWorld; ++r) {
      ASSERT_OK(job.results()[r]);
      ASSERT_EQ(shards[r], ShardOf(mean, layout, Rank(r), DType::kBFloat16)) << "rank " << r;
      ASSERT_EQ(broadcast[r], inputs[root]) << "rank " << r;
      if (ring) {
        ASSERT_EQ(sums[r], sum) << "rank " << r;
      }
    }
  }
}

}  // namespace
}  // namespace rz
