#include "collectives/call_check.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Rank 1 of 3 with 10 float32: chunks of 4, 3, 3, its own begins at 4.
class CallCheckTest : public ::testing::Test {
 protected:
  Call MakeCall(Collective collective) {
    Call call;
    call.collective = collective;
    call.send = memory_.data();
    call.recv = memory_.data() + 50;
    call.count = 10;
    call.rank = Rank(1);
    call.world = 3;
    return call;
  }

  absl::Status CheckAt(Collective collective, int send, int recv, int64_t tile_chunk = 0) {
    Call call = MakeCall(collective);
    call.send = memory_.data() + send;
    call.recv = memory_.data() + recv;
    call.tile_chunk = tile_chunk;
    return CheckCall(call);
  }

  std::vector<float> memory_ = std::vector<float>(100);
};

#define EXPECT_INVALID(expression, text) \
  EXPECT_THAT(expression, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)))

TEST_F(CallCheckTest, SeparateBuffersAreFine) {
  for (Collective collective : {Collective::kAllReduce, Collective::kReduceScatter,
                                Collective::kAllGather, Collective::kBroadcast}) {
    EXPECT_THAT(CheckCall(MakeCall(collective)), IsOk());
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
  EXPECT_THAT(CheckCall(call),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("rank 1, reduce_scatter"), HasSubstr("40 bytes"))));
  call = MakeCall(Collective::kReduceScatter);
  call.recv = nullptr;
  EXPECT_INVALID(CheckCall(call), "receive buffer is null");
  call.count = 1;  // all of it is rank 0's
  EXPECT_OK(CheckCall(call));
  call.count = 0;
  call.send = nullptr;
  EXPECT_OK(CheckCall(call));
}

TEST_F(CallCheckTest, ImpossibleNumbersAreRefused) {
  Call call = MakeCall(Collective::kAllReduce);
  call.count = -1;
  EXPECT_INVALID(CheckCall(call), "negative");
  call.count = std::numeric_limits<int64_t>::max() / 4 + 1;
  EXPECT_INVALID(CheckCall(call), "overflow");
  call.count = 10;
  call.tile_chunk = -2;
  EXPECT_INVALID(CheckCall(call), "tile_chunk");
  call = MakeCall(Collective::kBroadcast);
  for (int root : {-1, 3}) {
    call.root = Rank(root);
    EXPECT_INVALID(CheckCall(call), "root");
  }
}

}  // namespace
}  // namespace rz
