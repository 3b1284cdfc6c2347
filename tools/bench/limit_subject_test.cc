#include "tools/bench/limit_subject.h"

#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using Op = BenchOperation;

// What the operation leaves of 0, 1, 2, ... in a buffer of -1.
std::vector<float> Left(Op operation, int rank, int world, int64_t count, int64_t buffer) {
  std::vector<float> send(buffer), recv(buffer, -1);
  std::iota(send.begin(), send.end(), 0);
  MeasuredCall measured;
  measured.operation = operation;
  Call call;
  call.send = send.data();
  call.recv = recv.data();
  call.count = count;
  measured.calls = {call};
  LimitSubject limit(rank, world);
  EXPECT_OK(limit.Run(measured));
  return recv;
}

int64_t Written(const std::vector<float>& recv) {
  return std::count_if(recv.begin(), recv.end(), [](float value) { return value != -1; });
}

TEST(LimitSubjectTest, AnAllReduceReadsEveryPieceAndStoresEveryCopy) {
  // Larger than a slice; three pieces of 10000.
  const auto recv = Left(Op::kAllReduce, 0, 3, 30000, 30000);
  for (int copy = 0; copy < 3; ++copy) {
    for (int i : {0, 1, 4095, 4096, 9999}) {
      EXPECT_EQ(recv[copy * 10000 + i], 3 * i + 30000);
    }
  }
}

TEST(LimitSubjectTest, EachOperationWritesItsBytes) {
  EXPECT_EQ(Written(Left(Op::kReduceScatter, 0, 4, 400, 400)), 100);
  EXPECT_EQ(Written(Left(Op::kReduce, 1, 4, 400, 400)), 100);
  EXPECT_EQ(Written(Left(Op::kAllGather, 0, 4, 400, 400)), 400);
  EXPECT_EQ(Written(Left(Op::kAllToAll, 0, 4, 100, 400)), 400);
  EXPECT_EQ(Written(Left(Op::kSendRecv, 0, 4, 400, 400)), 400);
  EXPECT_EQ(Written(Left(Op::kBroadcast, 0, 4, 400, 400)), 0);
  EXPECT_EQ(Written(Left(Op::kBroadcast, 1, 4, 400, 400)), 400);
  EXPECT_EQ(Written(Left(Op::kGather, 0, 4, 400, 400)), 100);
  EXPECT_EQ(Written(Left(Op::kBarrier, 0, 4, 0, 4)), 0);
  EXPECT_EQ(Written(Left(Op::kAllReduce, 0, 1, 400, 400)), 400);
}

}  // namespace
}  // namespace rz
