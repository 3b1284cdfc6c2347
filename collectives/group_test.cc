// Groups of calls: the bits of single calls, in fewer messages; and no call starts where one is
// wrong.
#include <cstdint>
#include <memory>
#include <random>
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
using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

// One rank's calls with their memory.
struct RankGroup {
  std::vector<Bytes> send;
  std::vector<Bytes> recv;
  std::vector<Call> calls;
};

RankGroup MakeGroup(int rank, int world, uint64_t seed, NumericMode mode) {
  std::mt19937_64 random(seed);  // the same on all ranks
  RankGroup group;
  DType dtype = DType::kFloat32;
  Collective collective = Collective::kAllReduce;
  ReduceOp op = ReduceOp::kSum;
  constexpr Collective kKinds[] = {Collective::kAllReduce, Collective::kAllGather,
                                   Collective::kBroadcast, Collective::kReduceScatter,
                                   Collective::kBarrier};
  const size_t calls = 1 + random() % 12;
  group.send.reserve(calls);
  group.recv.reserve(calls);
  for (size_t i = 0; i < calls; ++i) {
    if (random() % 4 == 0) collective = kKinds[random() % std::size(kKinds)];
    if (random() % 4 == 0) dtype = random() % 2 == 0 ? DType::kBFloat16 : DType::kFloat32;
    if (random() % 4 == 0) op = random() % 2 == 0 ? ReduceOp::kAvg : ReduceOp::kPremulSum;
    const auto count = static_cast<int64_t>(random() % 5 == 0 ? 9000 : random() % 40);
    const auto bytes = static_cast<size_t>(count) * SizeOf(dtype);
    group.send.push_back(RandomElements(dtype, count, seed * 10000 + i * 100 + rank));
    group.recv.emplace_back(bytes);
    Call call;
    call.collective = collective;
    call.dtype = dtype;
    call.op = op;
    call.count = count;
    call.root = Rank(static_cast<int32_t>(random() % 2) % world);
    call.options = {.numeric_mode = mode, .premul = {.floating = 1.5}};
    call.send = group.send.back().data();
    call.recv = group.recv.back().data();
    if (collective == Collective::kBroadcast) {
      if (Rank(rank) == call.root) group.recv.back() = group.send.back();
      call.send = call.recv = group.recv.back().data();
    }
    group.calls.push_back(call);
  }
  return group;
}

TEST(GroupTest, BitsAreThoseOfSingleCalls) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const int world = 1 + static_cast<int>(seed % 7);
    const NumericMode mode = seed % 2 == 0 ? NumericMode::kDeterministic : NumericMode::kFast;
    SCOPED_TRACE(seed);
    CommunicatorOptions options;
    options.slice_bytes = 512;
    SimJob job(world, {.seed = seed, .idle_polls = 20}, options);
    if (seed % 4 < 2) {
      ASSERT_TRUE(job.ShareMemory().value());
    }
    std::vector<RankGroup> single;
    std::vector<RankGroup> grouped;
    for (int r = 0; r < world; ++r) {
      single.push_back(MakeGroup(r, world, seed, mode));
      grouped.push_back(MakeGroup(r, world, seed, mode));
    }
    const int calls = static_cast<int>(single[0].calls.size());
    ASSERT_THAT(job.Run(calls,
                        [&](int r, int i) {
                          return job.comm(r).StartGroup({&single[r].calls[i], 1});
                        }),
                IsOk());
    for (int repeat = 0; repeat < 2; ++repeat) {
      ASSERT_THAT(job.Run(1, [&](int r, int) { return job.comm(r).StartGroup(grouped[r].calls); }),
                  IsOk());
      for (int r = 0; r < world; ++r) {
        ASSERT_THAT(job.results()[r], IsOk());
        for (int i = 0; i < calls; ++i) {
          ASSERT_EQ(grouped[r].recv[i], single[r].recv[i]) << "rank " << r << ", call " << i;
        }
      }
    }
  }
}

TEST(GroupTest, SmallCallsShareTheirMessages) {
  constexpr int kWorld = 4;
  constexpr int kCalls = 50;
  const auto events = [](bool grouped) {
    SimJob job(kWorld, {}, {});
    std::vector<std::vector<float>> data(kWorld, std::vector<float>(kCalls * 10, 1));
    std::vector<std::vector<Call>> calls(kWorld);
    for (int r = 0; r < kWorld; ++r) {
      for (int i = 0; i < kCalls; ++i) {
        Call call;
        call.collective = Collective::kAllReduce;
        call.send = call.recv = data[r].data() + i * 10;
        call.count = 10;
        calls[r].push_back(call);
      }
    }
    const size_t together = grouped ? kCalls : 1;
    EXPECT_THAT(job.Run(static_cast<int>(kCalls / together),
                        [&](int r, int i) {
                          return job.comm(r).StartGroup({&calls[r][i * together], together});
                        }),
                IsOk());
    for (const auto& values : data) EXPECT_THAT(values, ::testing::Each(4));
    return job.world().events();
  };
  EXPECT_LT(events(true) * 20, events(false));
}

TEST(GroupTest, NothingStartsWhereOneCallIsWrong) {
  SimJob job(1, {}, {});
  std::vector<float> data(4, 3);
  std::vector<float> out(4);
  std::vector<Call> calls(2);
  calls[0].collective = calls[1].collective = Collective::kAllGather;
  calls[0].send = calls[1].send = data.data();
  calls[0].recv = out.data();
  calls[0].count = calls[1].count = 4;
  EXPECT_THAT(job.comm(0).RunGroup(calls),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("receive buffer is null")));
  EXPECT_THAT(out, ::testing::Each(0));
  calls[1].recv = out.data();
  calls[1].count = 0;
  EXPECT_OK(job.comm(0).RunGroup(calls));
  EXPECT_THAT(out, ::testing::Each(3));
  EXPECT_OK(job.comm(0).RunGroup({}));
}

TEST(GroupTest, FailureEndsTheGroup) {
  SimJob job(2, {}, {});
  std::vector<float> data(20, 1);
  std::vector<Call> calls(2);
  for (int i = 0; i < 2; ++i) {
    calls[i].collective = Collective::kAllReduce;
    calls[i].send = calls[i].recv = data.data() + 10 * i;
    calls[i].count = 10;
  }
  ASSERT_OK_AND_ASSIGN(Operation operation, job.comm(0).StartGroup(calls));
  EXPECT_FALSE(operation.done());
  job.comm(0).Abort(absl::AbortedError("rank 1 was lost"));
  EXPECT_THAT(operation.Wait(), StatusIs(absl::StatusCode::kAborted, "rank 1 was lost"));
}

// Of one length in all: without this the sums of one rank would meet others of another.
TEST(GroupTest, PacksOfOtherMembersAreDifferentCalls) {
  SimJob job(3, {}, {});
  std::vector<float> data(30);
  ASSERT_THAT(job.Run(1,
                      [&](int r, int) {
                        Call calls[2];
                        for (int i : {0, 1}) {
                          calls[i].collective = Collective::kAllReduce;
                          calls[i].count = (r == 2) == (i == 0) ? 20 : 10;
                          calls[i].send = calls[i].recv =
                              data.data() + (i == 0 ? 0 : calls[0].count);
                        }
                        return job.comm(r).StartGroup(calls);
                      }),
              IsOk());
  for (const absl::Status& result : job.results()) {
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("hash")));
  }
}

}  // namespace
}  // namespace rz
