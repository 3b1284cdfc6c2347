#include "collectives/control_channel.h"

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/wire_tag.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSeeds = 20;

CallDescriptor AllReduce(int64_t count) {
  CallDescriptor call;
  call.kind = static_cast<uint8_t>(Collective::kAllReduce);
  call.dtype = static_cast<uint8_t>(DType::kFloat32);
  call.op = static_cast<uint8_t>(ReduceOp::kSum);
  call.count = count;
  return call;
}

// One rank: a channel, and what it was told.
class Node final : public ControlListener {
 public:
  Node(Transport* transport, uint32_t id = 0)
      : transport_(transport), channel_(transport, Group(*transport), id, this) {}

  void Call(CallDescriptor call) {
    Begin(call);
    channel_.EndCall();
  }
  void Begin(CallDescriptor call) {
    call.number = ++number_;
    call.history = history_;
    history_ = HashesOf(call).history_after;
    channel_.BeginCall(call);
  }

  void OnCallHeard(int64_t number, Rank peer) override { heard.push_back({number, peer.value()}); }
  void OnVerdict() override { ++verdicts; }

  ControlChannel& channel() { return channel_; }
  Transport* transport() { return transport_; }

  std::vector<std::pair<int64_t, int>> heard;
  int verdicts = 0;

 private:
  Transport* const transport_;
  ControlChannel channel_;
  int64_t number_ = 0;
  uint64_t history_ = 0;
};

class Job {
 public:
  Job(int world, uint64_t seed) : world_(world, {.seed = seed}) {
    for (int r = 0; r < world; ++r) {
      nodes_.push_back(std::make_unique<Node>(world_.transport(Rank(r))));
    }
  }

  Node& node(int rank) { return *nodes_[rank]; }
  SimWorld& world() { return world_; }
  int size() const { return static_cast<int>(nodes_.size()); }

  // Moves all ranks until `done` holds for each.
  absl::Status Run(const std::function<bool(Node&)>& done) {
    std::vector<std::function<bool()>> ranks;
    for (auto& node : nodes_) {
      ranks.push_back([&node = *node, &done] {
        node.transport()->Progress();
        return done(node);
      });
    }
    return world_.Run(ranks);
  }

  void ExpectAgreement() {
    EXPECT_OK(Run([](Node& node) { return node.channel().caught_up(); }));
    for (auto& node : nodes_) EXPECT_OK(node->channel().verdict());
  }

  // Lets go of everything, as communicators do at their end or after a failure.
  ~Job() {
    for (auto& node : nodes_) {
      if (!node->channel().verdict().ok()) ended_in_verdict_ = true;
    }
    for (auto& node : nodes_) {
      node->channel().Close();
      if (ended_in_verdict_) node->transport()->Abort(absl::CancelledError("end"));
    }
    EXPECT_OK(Run([](Node& node) { return node.channel().idle(); }));
  }

 private:
  SimWorld world_;
  std::vector<std::unique_ptr<Node>> nodes_;
  bool ended_in_verdict_ = false;
};

TEST(ControlChannelTest, EqualCallsAgree) {
  for (int world : {1, 2, 3, 5}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Job job(world, seed);
      for (int64_t call = 1; call <= 30; ++call) {
        for (int r = 0; r < world; ++r) job.node(r).Call(AllReduce(call));
        if (call % 3 == 0) job.ExpectAgreement();
      }
      const size_t links = world == 1 ? 0 : world == 2 ? 1 : 2;
      for (int r = 0; r < world; ++r) {
        EXPECT_EQ(job.node(r).heard.size(), 30 * links);
        EXPECT_EQ(job.node(r).channel().bytes_sent(), static_cast<int64_t>(30 * links * 64));
      }
    }
  }
}

TEST(ControlChannelTest, ACallMayEndWhenItsOwnMessagesHaveLeft) {
  SimWorld world(2, {.send_mode = SendMode::kRendezvous});
  Node a(world.transport(Rank(0)));
  Node b(world.transport(Rank(1)));
  a.Call(AllReduce(1));
  // The other rank's message is here, and it has not taken this rank's.
  const CallDescriptor theirs = [] {
    CallDescriptor call = AllReduce(1);
    call.number = 1;
    return call;
  }();
  const auto* bytes = reinterpret_cast<const std::byte*>(&theirs);
  struct Ignore final : CompletionSink {
    void OnComplete(uint64_t, const absl::Status&, size_t) override {}
  } ignore;
  ASSERT_OK(world.transport(Rank(1))->PostSend(
      Rank(0), CallTag(0), absl::MakeConstSpan(bytes, sizeof theirs), &ignore, 0));
  while (a.heard.empty()) a.transport()->Progress();
  EXPECT_FALSE(a.channel().MayEnd(1));
  EXPECT_EQ(a.channel().DescribeNeighbours(), "rank 1 has not been told of operation 1 yet");
  b.Call(AllReduce(1));
  while (!a.channel().MayEnd(1)) a.transport()->Progress();
  for (Node* node : {&a, &b}) node->transport()->Abort(absl::CancelledError("end"));
  while (!a.channel().idle() || !b.channel().idle()) {
    a.transport()->Progress();
    b.transport()->Progress();
  }
}

TEST(ControlChannelTest, ACallMayEndWhenTheNeighboursHaveMadeIt) {
  Job job(3, 1);
  ControlChannel& channel = job.node(0).channel();
  for (int64_t call = 1; call <= 2; ++call) job.node(0).Call(AllReduce(call));
  EXPECT_FALSE(channel.MayEnd(1));
  job.node(1).Call(AllReduce(1));
  while (job.node(0).heard.empty()) job.node(0).transport()->Progress();
  EXPECT_FALSE(channel.MayEnd(1)) << "one of two neighbours";
  for (int r : {1, 2}) {
    for (int64_t call = r == 1 ? 2 : 1; call <= 2; ++call) job.node(r).Call(AllReduce(call));
  }
  ASSERT_OK(job.Run([&](Node& node) { return channel.agreed() == 2 || &node != &job.node(0); }));
  EXPECT_TRUE(channel.MayEnd(1) && channel.MayEnd(2));
  job.node(0).Call(AllReduce(0));
  // One of no elements ends alone: the others can end theirs without this rank.
  EXPECT_TRUE(channel.MayEnd(3));
  job.node(0).Call(AllReduce(0));
  EXPECT_FALSE(channel.MayEnd(4)) << "the call before it is not known to have been made";
  for (int r : {1, 2}) {
    job.node(r).Call(AllReduce(0));
    job.node(r).Call(AllReduce(0));
  }
  job.ExpectAgreement();
}

TEST(ControlChannelTest, ARankMayRunAheadOfItsNeighbours) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Job job(3, seed);
    for (int64_t call = 1; call <= 100; ++call) job.node(0).Call(AllReduce(call));
    EXPECT_EQ(job.node(0).channel().agreed(), 0);
    EXPECT_FALSE(job.node(0).channel().caught_up());
    for (int64_t call = 1; call <= 100; ++call) {
      job.node(1).Call(AllReduce(call));
      job.node(2).Call(AllReduce(call));
    }
    job.ExpectAgreement();
  }
}

TEST(ControlChannelTest, EveryRankGetsTheVerdictAndEachNamesATruePair) {
  for (int world : {2, 3, 5, 8}) {
    for (int deviator = 0; deviator < world; ++deviator) {
      for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        Job job(world, seed);
        for (int r = 0; r < world; ++r) {
          job.node(r).Call(AllReduce(10));
          job.node(r).Call(AllReduce(r == deviator ? 21 : 20));
        }
        ASSERT_OK(job.Run([](Node& node) { return !node.channel().verdict().ok(); }));
        for (int r = 0; r < world; ++r) {
          EXPECT_EQ(job.node(r).verdicts, 1);
          const std::string theirs =
              "rank " + std::to_string(deviator) + " called all_reduce of 21 float32 sum";
          EXPECT_THAT(job.node(r).channel().verdict(),
                      StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("operation 2: rank "), HasSubstr(theirs),
                                     HasSubstr("called all_reduce of 20 float32 sum"))));
        }
      }
    }
  }
}

TEST(ControlChannelTest, ARankThatDoesNotLookKeepsNobodyFromTheVerdict) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Job job(4, seed);
    for (int r = 0; r < 4; ++r) job.node(r).Call(AllReduce(r == 2 ? 21 : 20));
    // Rank 2 has returned from its call and computes.
    ASSERT_OK(job.Run(
        [&](Node& node) { return &node == &job.node(2) || !node.channel().verdict().ok(); }));
  }
}

TEST(ControlChannelTest, TheVerdictIsOutOnceItsMessagesHaveLeft) {
  SimWorld world(2, {.send_mode = SendMode::kRendezvous});
  Node a(world.transport(Rank(0)));
  Node b(world.transport(Rank(1)));
  a.Call(AllReduce(1));
  b.Call(AllReduce(2));
  // Rank 1 is not polled, but its transport takes what comes.
  while (a.channel().verdict().ok()) a.transport()->Progress();
  EXPECT_FALSE(a.channel().verdict_is_out());
  while (!a.channel().verdict_is_out()) a.transport()->Progress();
  EXPECT_OK(b.channel().verdict());
  b.transport()->Progress();
  EXPECT_EQ(b.channel().verdict(), a.channel().verdict());
  a.transport()->Abort(absl::CancelledError("end"));
  b.transport()->Abort(absl::CancelledError("end"));
  while (!a.channel().idle() || !b.channel().idle()) {
    a.transport()->Progress();
    b.transport()->Progress();
  }
}

TEST(ControlChannelTest, PayloadsTravelWithTheCall) {
  for (int world : {2, 3}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Job job(world, seed);
      for (int64_t call = 1; call <= 20; ++call) {
        for (int r = 0; r < world; ++r) {
          job.node(r).Begin(AllReduce(call));
          const Rank next((r + 1) % world);
          const std::vector<std::byte> data(static_cast<size_t>(call - 1), std::byte(r));
          EXPECT_FALSE(job.node(r).channel().AttachPayload(call + 1, next, data));
          EXPECT_TRUE(job.node(r).channel().AttachPayload(call, next, data));
          EXPECT_FALSE(job.node(r).channel().AttachPayload(call, next, data)) << "twice";
          job.node(r).channel().EndCall();
          EXPECT_FALSE(job.node(r).channel().AttachPayload(call, next, data)) << "after the end";
        }
        if (call % 5 != 0) continue;
        job.ExpectAgreement();
        for (int r = 0; r < world; ++r) {
          ControlChannel& channel = job.node(r).channel();
          const Rank previous((r + world - 1) % world);
          for (int64_t n = call - 4; n <= call; ++n) {
            const auto heard = channel.HeardFrom(n, previous);
            ASSERT_TRUE(heard.has_value() && heard->has_payload);
            EXPECT_EQ(
                std::vector<std::byte>(heard->payload.begin(), heard->payload.end()),
                std::vector<std::byte>(static_cast<size_t>(n - 1), std::byte(previous.value())));
            channel.TakePayload(n, previous);
            EXPECT_FALSE(channel.HeardFrom(n, previous)->has_payload);
            if (world == 3) {
              EXPECT_FALSE(channel.HeardFrom(n, Rank((r + 1) % world))->has_payload);
            }
          }
        }
      }
    }
  }
}

TEST(ControlChannelTest, PayloadsStayWhereCallsRunAhead) {
  Job job(2, 1);
  constexpr int64_t kCalls = 50;
  for (int64_t call = 1; call <= kCalls; ++call) {
    for (int r = 0; r < 2; ++r) {
      job.node(r).Begin(AllReduce(call));
      const std::byte data{static_cast<unsigned char>(call)};
      ASSERT_TRUE(
          job.node(r).channel().AttachPayload(call, Rank(1 - r), absl::MakeConstSpan(&data, 1)));
      job.node(r).channel().EndCall();
    }
  }
  job.ExpectAgreement();
  for (int64_t call = kCalls; call >= 1; --call) {
    const auto heard = job.node(0).channel().HeardFrom(call, Rank(1));
    ASSERT_TRUE(heard.has_value() && heard->has_payload);
    EXPECT_EQ(heard->payload[0], std::byte{static_cast<unsigned char>(call)});
    job.node(0).channel().TakePayload(call, Rank(1));
  }
}

TEST(ControlChannelTest, PayloadsThatAreTooLongOrForOthersAreNotTaken) {
  Job job(4, 1);
  for (int r = 0; r < 4; ++r) job.node(r).Begin(AllReduce(1));
  ControlChannel& channel = job.node(0).channel();
  const std::vector<std::byte> long_data(kMaxPayloadWithCall + 1);
  EXPECT_FALSE(channel.AttachPayload(1, Rank(1), long_data));
  EXPECT_FALSE(channel.AttachPayload(1, Rank(2), {}));
  EXPECT_TRUE(
      channel.AttachPayload(1, Rank(1), absl::MakeConstSpan(long_data).first(kMaxPayloadWithCall)));
  EXPECT_TRUE(channel.AttachPayload(1, Rank(3), {}));
  for (int r = 0; r < 4; ++r) job.node(r).channel().EndCall();
  job.ExpectAgreement();
  EXPECT_EQ(job.node(1).channel().HeardFrom(1, Rank(0))->payload.size(), kMaxPayloadWithCall);
}

TEST(ControlChannelTest, ANeighbourThatGoesAwayFailsWhatNeedsIt) {
  Job job(2, 1);
  for (int r = 0; r < 2; ++r) job.node(r).Call(AllReduce(1));
  job.ExpectAgreement();
  job.node(0).Call(AllReduce(2));
  job.world().Kill(Rank(1), /*silent=*/false);
  job.node(0).transport()->Progress();
  EXPECT_OK(job.node(0).channel().failure()) << "the last call may end without it";
  job.node(0).Call(AllReduce(3));
  EXPECT_THAT(job.node(0).channel().failure(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("operation 2: rank 1 has not made this call"),
                             HasSubstr("rank 1 is dead"))));
  EXPECT_THAT(job.node(0).channel().DescribeNeighbours(),
              HasSubstr("rank 1 has not been told of operation 2"));
}

// Rank 1 is this test and sends what it likes.
class ForeignMessageTest : public ::testing::Test {
 protected:
  ForeignMessageTest() : node_(world_.transport(Rank(0))) { node_.Call(AllReduce(1)); }
  ~ForeignMessageTest() override {
    world_.transport(Rank(0))->Abort(absl::CancelledError("end"));
    while (!node_.channel().idle()) node_.transport()->Progress();
  }

  struct Ignore final : CompletionSink {
    void OnComplete(uint64_t, const absl::Status&, size_t) override {}
  };

  absl::Status VerdictAfter(Tag tag, absl::Span<const std::byte> bytes) {
    EXPECT_OK(world_.transport(Rank(1))->PostSend(Rank(0), tag, bytes, &ignore_, 0));
    for (int i = 0; i < 100; ++i) node_.transport()->Progress();
    return node_.channel().verdict();
  }

  SimWorld world_{2, {.send_mode = SendMode::kEager}};
  Ignore ignore_;
  Node node_;
};

TEST_F(ForeignMessageTest, ACallThatCannotBeReadIsAnError) {
  const std::vector<std::byte> nonsense(64, std::byte{1});
  EXPECT_THAT(VerdictAfter(CallTag(0), nonsense),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("operation 1"), HasSubstr("rank 1"), HasSubstr("RZCD"))));
}

TEST_F(ForeignMessageTest, AShortCallIsAnError) {
  EXPECT_THAT(VerdictAfter(CallTag(0), {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("0 bytes")));
}

TEST_F(ForeignMessageTest, APayloadOfAnotherLengthIsAnError) {
  std::vector<std::byte> bytes(64 + 3);
  CallDescriptor call = AllReduce(1);
  call.number = 1;
  call.payload_bytes = 4;
  std::memcpy(bytes.data(), &call, sizeof call);
  EXPECT_THAT(VerdictAfter(CallTag(0), bytes),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another length")));
}

TEST_F(ForeignMessageTest, AVerdictThatCannotBeReadIsOneAllTheSame) {
  const std::vector<std::byte> nonsense(9, std::byte{1});
  EXPECT_THAT(VerdictAfter(VerdictTag(0), nonsense),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("rank 1 says")));
}

TEST(WireTagTest, NothingSharesATag) {
  EXPECT_NE(LaneTag(0, 1, 0, 5), LaneTag(0, 1, 0, 6));
  EXPECT_NE(LaneTag(0, 1, 0, 5), LaneTag(0, 2, 0, 5));
  EXPECT_NE(LaneTag(0, 1, 0, 5), LaneTag(1, 1, 0, 5));
  EXPECT_EQ(LaneTag(0, 1, 7, 5), LaneTag(0, 1, 7, 6));
  EXPECT_EQ(LaneTag(0, 1, 1, 0), LaneTag(0, 1, 2048, 0));
  for (int64_t lane = 0; lane < 5000; ++lane) {
    for (int64_t operation : {0, 1, 2, 1 << 22}) {
      EXPECT_NE(LaneTag(3, operation, lane, 0), CallTag(3));
      EXPECT_NE(LaneTag(3, operation, lane, 2047), VerdictTag(3));
      EXPECT_LE(LaneTag(255, operation, lane, 2047), kMaxTag);
    }
  }
}

}  // namespace
}  // namespace rz
