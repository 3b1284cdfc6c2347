#include "collectives/call_check.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "collectives/testing/collective_case.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status CheckOnRankOne(const Call& call) { return CheckCall(call, Rank(1), 3); }

// Rank 1 of 3 with 10 float32: chunks of 4, 3, 3, its own begins at 4.
class CallCheckTest : public ::testing::Test {
 protected:
  Call MakeCall(Collective collective) {
    Call call;
    call.collective = collective;
    call.send = memory_.data();
    call.recv = memory_.data() + 50;
    call.count = 10;
    return call;
  }

  absl::Status CheckAt(Collective collective, int send, int recv, int64_t tile_chunk = 0) {
    Call call = MakeCall(collective);
    call.send = memory_.data() + send;
    call.recv = memory_.data() + recv;
    call.options.tile_chunk = tile_chunk;
    return CheckOnRankOne(call);
  }

  std::vector<float> memory_ = std::vector<float>(100);
};

#define EXPECT_INVALID(expression, text) \
  EXPECT_THAT(expression, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)))

TEST_F(CallCheckTest, SeparateBuffersAreFine) {
  for (Collective collective : {Collective::kAllReduce, Collective::kReduceScatter,
                                Collective::kAllGather, Collective::kBroadcast}) {
    EXPECT_THAT(CheckOnRankOne(MakeCall(collective)), IsOk());
  }
}

TEST_F(CallCheckTest, InPlaceFormsAreThoseOfNccl) {
  EXPECT_OK(CheckAt(Collective::kAllReduce, 0, 0));
  EXPECT_OK(CheckAt(Collective::kReduceScatter, 0, 4));
  EXPECT_OK(CheckAt(Collective::kAllGather, 4, 0));
}

TEST_F(CallCheckTest, OtherOverlapIsRefused) {
  EXPECT_INVALID(CheckAt(Collective::kAllReduce, 0, 9), "overlap");
  EXPECT_INVALID(CheckAt(Collective::kReduceScatter, 0, 0), "recv == send + 4 elements");
  EXPECT_INVALID(CheckAt(Collective::kReduceScatter, 1, 0), "overlap");
  EXPECT_INVALID(CheckAt(Collective::kAllGather, 0, 0), "send == recv + 4 elements");
  EXPECT_INVALID(CheckAt(Collective::kReduceScatter, 0, 2, 2), "several tiles");
}

TEST_F(CallCheckTest, NeighboursDoNotOverlap) {
  EXPECT_OK(CheckAt(Collective::kAllReduce, 0, 10));
  EXPECT_OK(CheckAt(Collective::kReduceScatter, 0, 10));
  EXPECT_OK(CheckAt(Collective::kReduceScatter, 3, 0));
}

TEST_F(CallCheckTest, NullIsAllowedOnlyForNothing) {
  Call call = MakeCall(Collective::kReduceScatter);
  call.send = nullptr;
  EXPECT_THAT(CheckOnRankOne(call),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("rank 1, reduce_scatter"), HasSubstr("40 bytes"))));
  call = MakeCall(Collective::kReduceScatter);
  call.recv = nullptr;
  EXPECT_INVALID(CheckOnRankOne(call), "receive buffer is null");
  call.count = 1;  // all of it is rank 0's
  EXPECT_OK(CheckOnRankOne(call));
  call.count = 0;
  call.send = nullptr;
  EXPECT_OK(CheckOnRankOne(call));
}

TEST_F(CallCheckTest, OnlyTheRootNeedsTheWholeBuffer) {
  Call call = MakeCall(Collective::kGather);
  call.recv = nullptr;
  EXPECT_OK(CheckOnRankOne(call));
  call.root = Rank(1);
  EXPECT_INVALID(CheckOnRankOne(call), "receive buffer is null");
  call = MakeCall(Collective::kScatter);
  call.send = nullptr;
  EXPECT_OK(CheckOnRankOne(call));
  call.root = Rank(1);
  EXPECT_INVALID(CheckOnRankOne(call), "send buffer is null");
  call = MakeCall(Collective::kReduce);
  call.recv = nullptr;
  EXPECT_OK(CheckOnRankOne(call));
}

TEST_F(CallCheckTest, RootedInPlaceForms) {
  const auto check = [&](Collective collective, int send, int recv) {
    Call call = MakeCall(collective);
    call.root = Rank(1);
    call.send = memory_.data() + send;
    call.recv = memory_.data() + recv;
    return CheckOnRankOne(call);
  };
  EXPECT_OK(check(Collective::kGather, 4, 0));
  EXPECT_INVALID(check(Collective::kGather, 0, 0), "send == recv + 4 elements");
  EXPECT_OK(check(Collective::kScatter, 0, 4));
  EXPECT_INVALID(check(Collective::kScatter, 0, 0), "recv == send + 4 elements");
  EXPECT_OK(check(Collective::kReduce, 0, 0));
  EXPECT_INVALID(check(Collective::kReduce, 0, 1), "overlap");
}

TEST_F(CallCheckTest, AllToAllHasNoInPlaceForm) {
  Call call = MakeCall(Collective::kAllToAll);
  EXPECT_OK(CheckOnRankOne(call));
  call.recv = memory_.data() + 29;  // each of the three ranks sends and gets ten
  EXPECT_INVALID(CheckOnRankOne(call), "no in-place form");
  call.count = std::numeric_limits<int64_t>::max() / 8;
  EXPECT_INVALID(CheckOnRankOne(call), "for each rank overflow");
}

TEST_F(CallCheckTest, CountsAreOneARankAndAddUp) {
  Call call = MakeCall(Collective::kReduceScatter);
  call.has_counts = true;
  const auto with = [&](std::vector<int64_t> counts) {
    call.counts = counts;
    return CheckOnRankOne(call);
  };
  EXPECT_OK(with({3, 0, 7}));
  EXPECT_INVALID(with({3, 7}), "2 entries for a world of 3");
  EXPECT_INVALID(with({3, -1, 7}), "counts[1] is -1");
  const int64_t half = std::numeric_limits<int64_t>::max() / 8;
  EXPECT_INVALID(with({half, half, half}), "overflow 64 bits at entry 2");
  call.recv = memory_.data() + 3;
  call.send = memory_.data();
  EXPECT_OK(with({3, 5, 7}));
  EXPECT_INVALID(with({4, 5, 7}), "recv == send + 4 elements");
  call.options.tile_chunk = 5;
  EXPECT_INVALID(with({3, 5, 7}), "no tiles");
  call = MakeCall(Collective::kGather);
  call.has_counts = true;
  EXPECT_INVALID(with({3, 5, 7}), "no v variant");
}

TEST_F(CallCheckTest, AllToAllCountsAgreeOnTheOwnBlock) {
  Call call = MakeCall(Collective::kAllToAll);
  call.has_counts = true;
  const std::vector<int64_t> sent = {1, 2, 3};
  const std::vector<int64_t> received = {0, 2, 5};
  const std::vector<int64_t> wrong = {0, 1, 5};
  call.counts = sent;
  call.recv_counts = received;
  EXPECT_OK(CheckOnRankOne(call));
  call.recv_counts = wrong;
  EXPECT_INVALID(CheckOnRankOne(call), "sends itself 2 elements and expects 1");
}

TEST_F(CallCheckTest, MessagesNeedABufferAndAPeer) {
  const auto check = [&](const void* buffer, int64_t count, int peer) {
    return CheckMessage("send", buffer, count, DType::kInt32, Rank(peer), Rank(1), 3);
  };
  EXPECT_OK(check(memory_.data(), 5, 2));
  EXPECT_OK(check(nullptr, 0, 1));
  EXPECT_INVALID(check(nullptr, 5, 2), "20 bytes");
  EXPECT_INVALID(check(memory_.data(), -5, 2), "negative");
  EXPECT_INVALID(check(memory_.data(), 5, 3), "peer 3");
}

TEST_F(CallCheckTest, AFunctionIsGivenWhereTheOpIsOne) {
  Call call = MakeCall(Collective::kAllReduce);
  call.op = ReduceOp::kFunction;
  EXPECT_INVALID(CheckOnRankOne(call), "none is given");
  call.options.function = testing::FunctionOf(ReduceOp::kSum);
  EXPECT_OK(CheckOnRankOne(call));
  call.op = ReduceOp::kMax;
  EXPECT_INVALID(CheckOnRankOne(call), "the op is max");
}

TEST_F(CallCheckTest, ImpossibleNumbersAreRefused) {
  Call call = MakeCall(Collective::kAllReduce);
  call.count = -1;
  EXPECT_INVALID(CheckOnRankOne(call), "negative");
  call.count = std::numeric_limits<int64_t>::max() / 4 + 1;
  EXPECT_INVALID(CheckOnRankOne(call), "overflow");
  call.count = 10;
  call.options.tile_chunk = -2;
  EXPECT_INVALID(CheckOnRankOne(call), "tile_chunk");
  call = MakeCall(Collective::kBroadcast);
  for (int root : {-1, 3}) {
    call.root = Rank(root);
    EXPECT_INVALID(CheckOnRankOne(call), "root");
  }
}

}  // namespace
}  // namespace rz
