#include "collectives/executor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/plan.h"
#include "collectives/schedule_cache.h"
#include "collectives/wire_tag.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kWorld = 3;
constexpr int kLanes = 2;

// Rank 0 of 3, whose peers are the test: it sees every post and completes them as it likes.
class ScriptedTransport final : public Transport {
 public:
  struct Post {
    bool send;
    int peer;
    Tag tag;
    size_t bytes;
    CompletionSink* sink;
    uint64_t token;
  };

  std::string LocalAddress() const override { return ""; }
  absl::Status Connect(Rank, absl::Span<const std::string>, Epoch) override {
    return absl::OkStatus();
  }
  Rank rank() const override { return Rank(0); }
  int world_size() const override { return kWorld; }
  absl::Status PostSend(Rank peer, Tag tag, absl::Span<const std::byte> data, CompletionSink* sink,
                        uint64_t token) override {
    if (!refusal.ok()) return refusal;
    posts.push_back({true, peer.value(), tag, data.size(), sink, token});
    return absl::OkStatus();
  }
  absl::Status PostRecv(Rank peer, Tag tag, absl::Span<std::byte> buffer, CompletionSink* sink,
                        uint64_t token) override {
    posts.push_back({false, peer.value(), tag, buffer.size(), sink, token});
    return absl::OkStatus();
  }
  void CancelReceives(CompletionSink*) override {}
  int Progress() override { return 0; }
  void WaitForEvent(Deadline) override {}
  void Wake() override {}
  void Abort(absl::Status cause) override { aborts.push_back(cause); }
  std::string Description() const override { return "scripted"; }

  // Completes everything posted so far; a receive takes `shortfall` bytes less than it has room
  // for.
  void CompleteAll(const absl::Status& status = absl::OkStatus(), size_t shortfall = 0) {
    std::vector<Post> completed;
    completed.swap(posts);
    for (const Post& post : completed) {
      const size_t bytes = post.send ? post.bytes : post.bytes - shortfall;
      post.sink->OnComplete(post.token, status, status.ok() ? bytes : 0);
    }
  }

  std::vector<Post> posts;
  std::vector<absl::Status> aborts;
  absl::Status refusal;
};

class ExecutorTest : public ::testing::Test {
 protected:
  // all_gather of 30 float32 in slices of two: five lanes of two rounds.
  Plan GatherPlan() {
    Plan plan;
    plan.collective = Collective::kAllGather;
    plan.algorithm = Algorithm::kRing;
    plan.count = 30;
    plan.lanes = LaneLayout(ChunkLayout(30, kWorld, 0), 2);
    plan.schedule =
        schedules_.Get(Collective::kAllGather, Algorithm::kRing, Format::kWire, Rank(0));
    return plan;
  }

  std::vector<int64_t> LanesPosted() const {
    std::vector<int64_t> lanes;
    for (const ScriptedTransport::Post& post : transport_.posts) {
      const auto field = static_cast<int64_t>(post.tag & 0xfff);
      if (post.send) lanes.push_back(field >= kFingerprints ? 0 : field);
    }
    return lanes;
  }

  void Start(int64_t number) { executor_.Start(number, GatherPlan(), shard_, whole_); }

  ScheduleCache schedules_{Rank(0), kWorld};
  ScriptedTransport transport_;
  Executor executor_{&transport_, Group(transport_), 9, kLanes};
  float shard_[10] = {};
  float whole_[30] = {};
};

TEST_F(ExecutorTest, LanesOfOneOperationAreBoundedAndFollowInOrder) {
  Start(4);
  EXPECT_THAT(LanesPosted(), ::testing::ElementsAre(0, 1));
  transport_.CompleteAll();
  executor_.Poll();
  EXPECT_THAT(LanesPosted(), ::testing::ElementsAre(0, 1));  // their second rounds
  transport_.CompleteAll();
  executor_.Poll();
  EXPECT_THAT(LanesPosted(), ::testing::ElementsAre(2, 3));
  EXPECT_FALSE(executor_.IsDone(4));
  for (int round = 0; round < 4; ++round) {
    transport_.CompleteAll();
    executor_.Poll();
  }
  EXPECT_TRUE(executor_.IsDone(4));
  EXPECT_OK(executor_.ResultOf(4));
  EXPECT_TRUE(executor_.idle());
}

TEST_F(ExecutorTest, LanesOfAllOperationsTogetherAreBounded) {
  for (int64_t number = 0; number < 10; ++number) Start(number);
  EXPECT_EQ(LanesPosted().size(), size_t{kLanes} * 4);
  EXPECT_THAT(executor_.DescribeWait(9), HasSubstr("earlier operations"));
  while (!executor_.idle()) {
    EXPECT_LE(LanesPosted().size(), size_t{kLanes} * 4);
    transport_.CompleteAll();
    executor_.Poll();
  }
}

TEST_F(ExecutorTest, TagsNameCommunicatorOperationAndLane) {
  Start(77);
  ASSERT_FALSE(transport_.posts.empty());
  EXPECT_EQ(transport_.posts.front().tag, LaneTag(9, 77, 0, 0));
  EXPECT_EQ(transport_.posts.back().tag, LaneTag(9, 77, 1, 0));
}

TEST_F(ExecutorTest, PayloadIsCountedWhenItIsHandedOver) {
  Start(0);
  EXPECT_EQ(executor_.wire_counters().all_gather, int64_t{kLanes} * 2 * 4);
  EXPECT_EQ(executor_.wire_counters().payload(), executor_.wire_counters().all_gather);
}

TEST_F(ExecutorTest, ShortMessageFailsWithBothLengths) {
  Start(3);
  transport_.CompleteAll(absl::OkStatus(), /*shortfall=*/4);
  executor_.Poll();
  EXPECT_TRUE(executor_.IsDone(3));
  EXPECT_THAT(executor_.ResultOf(3),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rank 0, operation 3 (all_gather of 30 float32 by ring)"),
                             HasSubstr("moved 4 bytes where this rank expected 8"))));
}

TEST_F(ExecutorTest, FailedOperationIsDoneWhenItsMemoryIsBack) {
  Start(0);
  executor_.Fail(absl::AbortedError("lost"));
  executor_.Fail(absl::InternalError("later"));
  ASSERT_EQ(transport_.aborts.size(), 1u);
  EXPECT_EQ(transport_.aborts[0], absl::AbortedError("lost"));
  executor_.Poll();
  EXPECT_FALSE(executor_.IsDone(0));
  transport_.CompleteAll(absl::AbortedError("lost"));
  EXPECT_TRUE(transport_.posts.empty());
  executor_.Poll();
  EXPECT_TRUE(executor_.IsDone(0));
  EXPECT_EQ(executor_.ResultOf(0), absl::AbortedError("lost"));
  EXPECT_TRUE(transport_.posts.empty());
}

TEST_F(ExecutorTest, RefusedPostNamesTheTransfer) {
  transport_.refusal = absl::UnavailableError("rank 1 is dead");
  Start(0);
  EXPECT_THAT(executor_.failure(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("lane 0, round 0, send block 0 to rank 1"),
                             HasSubstr("(8 bytes): rank 1 is dead"))));
  // The receive that was posted before is still the transport's.
  EXPECT_FALSE(executor_.IsDone(0));
  transport_.CompleteAll(executor_.failure());
  executor_.Poll();
  EXPECT_TRUE(executor_.IsDone(0));
}

TEST_F(ExecutorTest, RequestedAbortGoesBeforeWhatItCauses) {
  Start(0);
  executor_.RequestAbort(absl::AbortedError("asked for"));
  transport_.CompleteAll(absl::AbortedError("asked for"));
  executor_.Poll();
  EXPECT_EQ(executor_.ResultOf(0), absl::AbortedError("asked for"));
}

}  // namespace
}  // namespace rz
