// Send and receive: pairs of their own order, beside collectives; what ends in an error.
#include <cstdint>
#include <string>
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
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DType kType = DType::kInt32;

TEST(MessagesTest, PairsMatchInOrderWhateverArrivesFirst) {
  constexpr int kWorld = 3;
  constexpr int kMessages = 20;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    SimJob job(kWorld, {.seed = seed}, {});
    std::vector<std::vector<Bytes>> received(kWorld, std::vector<Bytes>(kMessages));
    const auto payload = [&](int sender, int i) {
      return RandomElements(kType, (i * 7) % 13, seed * 1000 + sender * 100 + i);
    };
    std::vector<std::vector<Bytes>> sent(kWorld);
    for (int r = 0; r < kWorld; ++r) {
      for (int i = 0; i < kMessages; ++i) sent[r].push_back(payload(r, i));
    }
    // All sends first on even ranks, all receives first on odd ones, with a collective between.
    ASSERT_THAT(job.Run(2 * kMessages + 1,
                        [&](int r, int i) -> absl::StatusOr<Operation> {
                          Communicator& comm = job.comm(r);
                          if (i == kMessages) return comm.StartBarrier();
                          const bool first_half = i < kMessages;
                          const int n = first_half ? i : i - kMessages - 1;
                          const int64_t count = (n * 7) % 13;
                          if (first_half == (r % 2 == 0)) {
                            return comm.StartSend(sent[r][n].data(), count, kType,
                                                  Rank((r + 1) % kWorld));
                          }
                          received[r][n].resize(count * 4);
                          return comm.StartRecv(received[r][n].data(), count, kType,
                                                Rank((r + 2) % kWorld));
                        }),
                IsOk());
    for (int r = 0; r < kWorld; ++r) {
      ASSERT_THAT(job.results()[r], IsOk());
      EXPECT_EQ(received[r], sent[(r + 2) % kWorld]);
    }
  }
}

TEST(MessagesTest, RankSendsToItself) {
  SimJob job(2, {}, {});
  Communicator& comm = job.comm(1);
  std::vector<int32_t> in = {1, 2, 3};
  std::vector<int32_t> out(3);
  ASSERT_OK_AND_ASSIGN(Operation receive, comm.StartRecv(out.data(), 3, kType, Rank(1)));
  EXPECT_OK(comm.Send(in.data(), 3, kType, Rank(1)));
  EXPECT_OK(receive.Wait());
  EXPECT_EQ(out, in);
  EXPECT_EQ(comm.wire_counters().messages, 12);
}

struct Side {
  int64_t count;
  DType dtype;
};

class MessageMismatchTest : public ::testing::TestWithParam<std::pair<Side, Side>> {};

TEST_P(MessageMismatchTest, ReceiverNamesBothCalls) {
  const auto [send, recv] = GetParam();
  for (SendMode mode : {SendMode::kEager, SendMode::kRendezvous}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SimJob job(2, {.seed = seed, .send_mode = mode}, {});
      std::vector<std::byte> memory(100);
      const absl::Status run = job.Run(1, [&](int r, int) {
        return r == 0 ? job.comm(0).StartSend(memory.data(), send.count, send.dtype, Rank(1))
                      : job.comm(1).StartRecv(memory.data(), recv.count, recv.dtype, Rank(0));
      });
      const absl::Status& result = job.results()[1];
      if (!run.ok()) {
        ASSERT_OK(job.AbortAll(absl::DeadlineExceededError("the harness's deadline")));
      }
      EXPECT_THAT(result,
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           AllOf(HasSubstr("rank 1, receive 0 of " + std::to_string(recv.count) +
                                           " " + std::string(NameOf(recv.dtype)) + " from rank 0"),
                                 HasSubstr("send 0 of " + std::to_string(send.count) + " " +
                                           std::string(NameOf(send.dtype))))));
      EXPECT_EQ(job.comm(1).status(), result);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MessageMismatchTest,
    ::testing::Values(std::pair(Side{5, DType::kInt32}, Side{6, DType::kInt32}),
                      std::pair(Side{6, DType::kInt32}, Side{5, DType::kInt32}),
                      std::pair(Side{0, DType::kInt32}, Side{5, DType::kInt32}),
                      std::pair(Side{5, DType::kInt32}, Side{0, DType::kInt32}),
                      std::pair(Side{5, DType::kInt32}, Side{5, DType::kFloat32}),
                      std::pair(Side{0, DType::kInt32}, Side{0, DType::kInt8})));

TEST(MessagesTest, DeadlineSaysWhichMessage) {
  SimJob job(2, {}, {});
  int32_t value = 0;
  EXPECT_THAT(job.comm(0).Recv(&value, 1, kType, Rank(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("rank 0, receive 0 of 1 int32 from rank 1"),
                             HasSubstr("has not come"))));
  EXPECT_FALSE(job.comm(0).Barrier().ok());
}

TEST(MessagesTest, DeathOfThePeerEndsThem) {
  SimJob job(2, {}, {});
  int32_t value = 0;
  ASSERT_OK_AND_ASSIGN(Operation receive, job.comm(0).StartRecv(&value, 1, kType, Rank(1)));
  job.world().Kill(Rank(1), /*silent=*/false);
  EXPECT_THAT(receive.Wait(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("receive 0")));
  EXPECT_THAT(job.comm(0).StartSend(&value, 1, kType, Rank(1)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1")));
}

TEST(MessagesTest, DestroyedUnderWayLeavesTheTransportNothing) {
  SimWorld world(2, {});
  CommunicatorOptions options;
  options.clock = world.clock();
  ASSERT_OK_AND_ASSIGN(auto peer, Communicator::Create(world.transport(Rank(1)), options));
  {
    std::vector<int32_t> memory(10);
    ASSERT_OK_AND_ASSIGN(auto comm, Communicator::Create(world.transport(Rank(0)), options));
    ASSERT_OK(comm->StartRecv(memory.data(), 10, kType, Rank(1)));
  }
  // What comes now must not land in memory that is gone (the address sanitizer looks).
  std::vector<int32_t> theirs(10);
  ASSERT_OK_AND_ASSIGN(Operation send, peer->StartSend(theirs.data(), 10, kType, Rank(0)));
  for (int i = 0; i < 100; ++i) send.Poll();
}

}  // namespace
}  // namespace rz
