#include "collectives/communicator.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectives/testing/oracle.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::Bytes;
using ::rz::testing::RandomElements;
using ::rz::testing::SimJob;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(CommunicatorCreateTest, ImpossibleOptionsAreRefused) {
  SimWorld world(1, {});
  const auto create = [&](const std::function<void(CommunicatorOptions&)>& change) {
    CommunicatorOptions options;
    change(options);
    return Communicator::Create(world.transport(Rank(0)), options).status();
  };
  EXPECT_OK(create([](CommunicatorOptions&) {}));
  EXPECT_THAT(create([](CommunicatorOptions& o) { o.algorithms = "all_reduce:magic"; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("magic")));
  EXPECT_THAT(create([](CommunicatorOptions& o) { o.algorithms = "all_reduce:ring_wire"; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("deterministic")));
  EXPECT_OK(create([](CommunicatorOptions& o) { o.slice_bytes = 64; }));
  EXPECT_THAT(create([](CommunicatorOptions& o) { o.slice_bytes = 63; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slice_bytes")));
  EXPECT_OK(create([](CommunicatorOptions& o) { o.lanes_in_flight = 64; }));
  for (int lanes : {0, 65}) {
    EXPECT_THAT(create([&](CommunicatorOptions& o) { o.lanes_in_flight = lanes; }),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lanes_in_flight")));
  }
  EXPECT_OK(create([](CommunicatorOptions& o) { o.id = 255; }));
  EXPECT_THAT(create([](CommunicatorOptions& o) { o.id = 256; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("id")));
  EXPECT_THAT(create([](CommunicatorOptions& o) { o.shared_spins = -1; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shared_spins")));
  EXPECT_THAT(Communicator::Create(nullptr, {}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CommunicatorTest, BadArgumentsLeaveItUsable) {
  SimJob job(1, {}, {});
  Communicator& comm = job.comm(0);
  std::vector<int32_t> data(10);
  EXPECT_THAT(comm.AllReduce(nullptr, data.data(), 10, DType::kInt32, ReduceOp::kSum),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("send buffer is null")));
  EXPECT_THAT(comm.AllReduce(data.data(), data.data(), 10, DType::kInt32, ReduceOp::kAvg),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("avg")));
  EXPECT_THAT(comm.ReduceScatter(data.data(), data.data(), -1, DType::kInt32, ReduceOp::kSum),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("negative")));
  EXPECT_THAT(comm.AllGather(data.data(), data.data() + 3, 10, DType::kInt32),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("overlap")));
  EXPECT_THAT(
      comm.Broadcast(data.data(), std::numeric_limits<int64_t>::max(), DType::kInt32, Rank(0)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("overflow")));
  EXPECT_THAT(comm.Broadcast(data.data(), 1, DType::kInt32, Rank(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("root 1")));
  EXPECT_OK(comm.status());
  EXPECT_OK(comm.AllReduce(data.data(), data.data(), 10, DType::kInt32, ReduceOp::kSum));
}

TEST(CommunicatorTest, ZeroCountCompletesAtOnce) {
  SimJob job(4, {}, {});
  ASSERT_OK_AND_ASSIGN(
      Operation operation,
      job.comm(2).StartAllReduce(nullptr, nullptr, 0, DType::kFloat32, ReduceOp::kSum));
  EXPECT_TRUE(operation.done());
  EXPECT_OK(operation.status());
}

TEST(CommunicatorTest, StatusOfAnOperationUnderWayIsFailedPrecondition) {
  SimJob job(2, {}, {});
  ASSERT_OK_AND_ASSIGN(const Operation operation, job.comm(0).StartBarrier());
  EXPECT_FALSE(operation.done());
  EXPECT_THAT(operation.status(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(CommunicatorTest, MissedDeadlineSaysWhoWaitsForWhomAndFailsForGood) {
  CommunicatorOptions options;
  options.algorithms = "all_reduce:ring";
  SimJob job(3, {}, options);
  std::vector<float> data(12);
  ASSERT_OK_AND_ASSIGN(
      Operation operation,
      job.comm(1).StartAllReduce(data.data(), data.data(), 12, DType::kFloat32, ReduceOp::kSum));
  const absl::Status status = operation.Wait(absl::Seconds(5));
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("rank 1"), HasSubstr("operation 1"), HasSubstr("5s"),
                             HasSubstr("all_reduce of 12 float32 sum by ring"),
                             HasSubstr("lane 0 of 1, round 0"),
                             HasSubstr("recv block 2 from rank 0"), HasSubstr("16 bytes"))));
  EXPECT_EQ(operation.status(), status);
  EXPECT_EQ(job.comm(1).status(), status);
  EXPECT_EQ(job.comm(1).Barrier(), status);
}

TEST(CommunicatorTest, AbortFromAnotherThreadIsTheFirstCause) {
  SimJob job(2, {}, {});
  std::vector<float> data(12);
  ASSERT_OK_AND_ASSIGN(
      Operation first,
      job.comm(0).StartAllReduce(data.data(), data.data(), 12, DType::kFloat32, ReduceOp::kSum));
  ASSERT_OK_AND_ASSIGN(Operation second, job.comm(0).StartBarrier());
  std::thread([&] { job.comm(0).Abort(absl::AbortedError("rank 1 was lost")); }).join();
  EXPECT_THAT(job.comm(0).status(), StatusIs(absl::StatusCode::kAborted, "rank 1 was lost"));
  job.comm(0).Abort(absl::InternalError("too late"));
  EXPECT_THAT(second.Wait(absl::Seconds(1)),
              StatusIs(absl::StatusCode::kAborted, "rank 1 was lost"));
  EXPECT_THAT(first.status(), StatusIs(absl::StatusCode::kAborted, "rank 1 was lost"));
  EXPECT_THAT(job.comm(0).StartBarrier(), StatusIs(absl::StatusCode::kAborted, "rank 1 was lost"));
}

TEST(CommunicatorTest, AbortWhileTheOwnerPolls) {
  SimJob job(2, {}, {});
  ASSERT_OK_AND_ASSIGN(Operation operation, job.comm(0).StartBarrier());
  std::thread other([&] { job.comm(0).Abort(absl::AbortedError("rank 1 was lost")); });
  while (!operation.Poll()) {
  }
  other.join();
  EXPECT_THAT(operation.status(), StatusIs(absl::StatusCode::kAborted, "rank 1 was lost"));
}

TEST(CommunicatorTest, ResultsOfEarlierOperationsOutliveAFailure) {
  SimJob job(1, {}, {});
  ASSERT_OK_AND_ASSIGN(const Operation operation, job.comm(0).StartBarrier());
  job.comm(0).Abort(absl::AbortedError("later"));
  EXPECT_OK(operation.status());
}

TEST(CommunicatorTest, DestroyedUnderWayLeavesTheTransportNothing) {
  for (SendMode mode : {SendMode::kEager, SendMode::kRendezvous}) {
    SimWorld world(2, {.send_mode = mode});
    CommunicatorOptions options;
    options.algorithms = "all_reduce:ring";  // of two rounds
    options.clock = world.clock();
    std::vector<float> theirs(1000);
    ASSERT_OK_AND_ASSIGN(auto peer, Communicator::Create(world.transport(Rank(1)), options));
    {
      auto mine = std::make_unique<std::vector<float>>(1000);
      ASSERT_OK_AND_ASSIGN(auto comm, Communicator::Create(world.transport(Rank(0)), options));
      ASSERT_OK(
          comm->StartAllReduce(mine->data(), mine->data(), 1000, DType::kFloat32, ReduceOp::kSum));
    }
    // What the peer sends now must not land in memory that is gone (the address sanitizer looks).
    ASSERT_OK_AND_ASSIGN(
        Operation operation,
        peer->StartAllReduce(theirs.data(), theirs.data(), 1000, DType::kFloat32, ReduceOp::kSum));
    EXPECT_FALSE(operation.Wait(absl::Seconds(1)).ok());
    EXPECT_THAT(world.transport(Rank(0))->PostSend(Rank(1), 0, {}, nullptr, 0),
                StatusIs(absl::StatusCode::kCancelled, HasSubstr("destroyed")));
  }
}

// Bytes the ranks have handed to their transports, added up.
WireCounters TotalCounters(SimJob& job) {
  WireCounters total;
  for (int r = 0; r < job.size(); ++r) {
    const WireCounters& counters = job.comm(r).wire_counters();
    total.all_reduce += counters.all_reduce;
    total.reduce_scatter += counters.reduce_scatter;
    total.all_gather += counters.all_gather;
    total.broadcast += counters.broadcast;
    total.control += counters.control;
  }
  return total;
}

class WireBytesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(WireBytesTest, PayloadIsTheClosedFormula) {
  constexpr int kWorld = 4;
  constexpr int64_t kChunk = 250;
  constexpr int64_t kCount = kWorld * kChunk;
  CommunicatorOptions options;
  options.slice_bytes = 64;
  if (!GetParam().empty()) options.algorithms = "reduce_scatter:" + GetParam();
  SimJob job(kWorld, {}, options);
  std::vector<Bytes> send(kWorld, RandomElements(DType::kBFloat16, kCount, 1));
  std::vector<Bytes> shard(kWorld, Bytes(kChunk * 2));
  std::vector<Bytes> whole(kWorld, Bytes(kCount * 2));
  ASSERT_OK(job.Run(4, [&](int r, int i) -> absl::StatusOr<Operation> {
    Communicator& comm = job.comm(r);
    if (i == 0) {
      return comm.StartReduceScatter(send[r].data(), shard[r].data(), kCount, DType::kBFloat16,
                                     ReduceOp::kAvg);
    }
    if (i == 1)
      return comm.StartAllGather(shard[r].data(), whole[r].data(), kCount, DType::kBFloat16);
    if (i == 2) return comm.StartBroadcast(whole[r].data(), kCount, DType::kBFloat16, Rank(1));
    return comm.StartBarrier();
  }));
  const int64_t sum_bytes = GetParam() == "ring" ? 4 : 2;
  for (int r = 0; r < kWorld; ++r) {
    const WireCounters& counters = job.comm(r).wire_counters();
    EXPECT_EQ(counters.reduce_scatter, (kWorld - 1) * kChunk * sum_bytes);
    EXPECT_EQ(counters.all_gather, (kWorld - 1) * kChunk * 2);
    EXPECT_EQ(counters.all_reduce, 0);
  }
  const WireCounters total = TotalCounters(job);
  EXPECT_EQ(total.broadcast, (kWorld - 1) * kCount * 2);
  constexpr int kCalls = 4, kNeighbours = 2, kDescriptorBytes = 64;
  EXPECT_EQ(total.control, kWorld * kCalls * kNeighbours * kDescriptorBytes);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, WireBytesTest, ::testing::Values("", "ring", "pairwise"),
                         [](const auto& info) {
                           return info.param.empty() ? std::string("default") : info.param;
                         });

// all_reduce's result on rank 0, everything else drawn from `seed`.
Bytes AllReduced(const std::string& algorithms, size_t slice_bytes, int lanes, SendMode mode,
                 int64_t tile_chunk, bool gathered) {
  constexpr int kWorld = 5;
  constexpr int64_t kCount = 1234;
  const DType dtype = DType::kBFloat16;
  CommunicatorOptions options;
  options.algorithms = algorithms;
  options.slice_bytes = slice_bytes;
  options.lanes_in_flight = lanes;
  SimJob job(kWorld, {.seed = slice_bytes + lanes, .send_mode = mode}, options);
  std::vector<Bytes> send;
  std::vector<Bytes> shard;
  std::vector<Bytes> whole(kWorld, Bytes(kCount * 2));
  const ChunkLayout layout(kCount, kWorld, tile_chunk);
  for (int r = 0; r < kWorld; ++r) {
    send.push_back(RandomElements(dtype, kCount, r));
    shard.push_back(Bytes(layout.ShardCount(Rank(r)) * 2));
  }
  const CallOptions call{tile_chunk};
  if (gathered) {
    EXPECT_OK(job.Run(1, [&](int r, int) {
      return job.comm(r).StartReduceScatter(send[r].data(), shard[r].data(), kCount, dtype,
                                            ReduceOp::kAvg, call);
    }));
    EXPECT_OK(job.Run(1, [&](int r, int) {
      return job.comm(r).StartAllGather(shard[r].data(), whole[r].data(), kCount, dtype, call);
    }));
  } else {
    EXPECT_OK(job.Run(1, [&](int r, int) {
      return job.comm(r).StartAllReduce(send[r].data(), whole[r].data(), kCount, dtype,
                                        ReduceOp::kAvg, call);
    }));
  }
  for (int r = 1; r < kWorld; ++r) EXPECT_EQ(whole[r], whole[0]);
  return whole[0];
}

TEST(DeterminismTest, AlgorithmSlicingLanesAndCollectiveLeaveTheSameBits) {
  for (int64_t tile_chunk : {0, 37}) {
    const Bytes expected = AllReduced("", 256 << 10, 4, SendMode::kEager, tile_chunk, false);
    for (const char* algorithms :
         {"reduce_scatter:ring,all_reduce:ring", "reduce_scatter:pairwise,all_reduce:pairwise"}) {
      for (size_t slice : {64, 100, 4096}) {
        for (int lanes : {1, 3}) {
          for (bool gathered : {false, true}) {
            EXPECT_EQ(AllReduced(algorithms, slice, lanes, SendMode::kMixed, tile_chunk, gathered),
                      expected);
          }
        }
      }
    }
  }
}

TEST(CommunicatorTest, SeveralCommunicatorsShareATransport) {
  SimWorld world(2, {});
  std::vector<std::unique_ptr<Communicator>> comms;
  std::vector<Operation> operations;
  std::vector<int32_t> values = {1, 2, 10, 20};
  for (int id = 0; id < 2; ++id) {
    for (int r = 0; r < 2; ++r) {
      CommunicatorOptions options;
      options.id = static_cast<uint32_t>(id);
      options.clock = world.clock();
      ASSERT_OK_AND_ASSIGN(auto comm, Communicator::Create(world.transport(Rank(r)), options));
      int32_t* value = &values[2 * id + r];
      ASSERT_OK_AND_ASSIGN(Operation operation,
                           comm->StartAllReduce(value, value, 1, DType::kInt32, ReduceOp::kSum));
      comms.push_back(std::move(comm));
      operations.push_back(operation);
    }
  }
  const auto poll_both = [](Operation& a, Operation& b) {
    const bool a_done = a.Poll();
    return b.Poll() && a_done;
  };
  const std::vector<std::function<bool()>> ranks = {
      [&] { return poll_both(operations[2], operations[0]); },
      [&] { return poll_both(operations[1], operations[3]); }};
  ASSERT_OK(world.Run(ranks));
  EXPECT_THAT(values, ::testing::ElementsAre(3, 3, 30, 30));
}

TEST(MismatchTest, DifferentCountsEndInAnErrorAndDamageNothing) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    constexpr int kWorld = 3;
    constexpr int64_t kCounts[kWorld] = {12, 30, 12};
    constexpr float kGuard = 77;
    SimJob job(kWorld, {.seed = seed}, {});
    std::vector<std::vector<float>> data;
    for (int64_t count : kCounts) data.emplace_back(count + 8, kGuard);
    const absl::Status run = job.Run(1, [&](int r, int) {
      return job.comm(r).StartAllReduce(data[r].data(), data[r].data(), kCounts[r], DType::kFloat32,
                                        ReduceOp::kSum);
    });
    ASSERT_OK(run) << "seed " << seed;
    for (int r = 0; r < kWorld; ++r) {
      EXPECT_THAT(job.results()[r],
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           AllOf(HasSubstr("operation 1: rank "),
                                 HasSubstr("called all_reduce of 12 float32 sum"),
                                 HasSubstr("rank 1 called all_reduce of 30 float32 sum"))))
          << "rank " << r << ", seed " << seed;
      for (int64_t i = kCounts[r]; i < kCounts[r] + 8; ++i) EXPECT_EQ(data[r][i], kGuard);
    }
  }
}

}  // namespace
}  // namespace rz
