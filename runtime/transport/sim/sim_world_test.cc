#include "runtime/transport/sim/sim_world.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/conformance/shared_memory.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Event {
  uint64_t token;
  absl::Status status;
  size_t bytes;
};

// Remembers what completed, in order.
class Recorder : public CompletionSink {
 public:
  void OnComplete(uint64_t token, const absl::Status& status, size_t bytes) override {
    events.push_back({token, status, bytes});
  }

  std::vector<Event> events;
};

absl::Span<const std::byte> BytesOf(const uint64_t& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(value)};
}
absl::Span<std::byte> BytesOf(uint64_t& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof(value)};
}

// Polls until `recorder` has `count` completions.
std::function<bool()> Until(Transport* transport, const Recorder& recorder, size_t count) {
  return [transport, &recorder, count] {
    transport->Progress();
    return recorder.events.size() >= count;
  };
}

class SimWorldTest : public ::testing::TestWithParam<SendMode> {
 protected:
  SimOptions Options(uint64_t seed) { return {.seed = seed, .send_mode = GetParam()}; }
};

TEST_P(SimWorldTest, OneStreamKeepsItsOrderAndTagsAreIndependent) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SimWorld world(2, Options(seed));
    Recorder sent;
    Recorder received;
    const std::array<uint64_t, 4> values = {10, 11, 20, 21};
    std::array<uint64_t, 4> got{};
    for (int i = 0; i < 4; ++i) {
      ASSERT_OK(world.transport(Rank(0))->PostSend(Rank(1), i / 2, BytesOf(values[i]), &sent, i));
    }
    for (int i : {2, 0, 3, 1}) {
      ASSERT_OK(world.transport(Rank(1))->PostRecv(Rank(0), i / 2, BytesOf(got[i]), &received, i));
    }
    const std::vector<std::function<bool()>> ranks = {Until(world.transport(Rank(0)), sent, 4),
                                                      Until(world.transport(Rank(1)), received, 4)};
    ASSERT_THAT(world.Run(ranks), IsOk()) << "seed " << seed;
    EXPECT_EQ(got, values) << "seed " << seed;
  }
}

TEST_P(SimWorldTest, SendToItself) {
  SimWorld world(1, Options(1));
  Recorder recorder;
  const uint64_t value = 7;
  uint64_t got = 0;
  Transport* transport = world.transport(Rank(0));
  ASSERT_OK(transport->PostRecv(Rank(0), 1, BytesOf(got), &recorder, 0));
  ASSERT_OK(transport->PostSend(Rank(0), 1, BytesOf(value), &recorder, 1));
  const std::vector<std::function<bool()>> ranks = {Until(transport, recorder, 2)};
  ASSERT_OK(world.Run(ranks));
  EXPECT_EQ(got, 7u);
}

TEST_P(SimWorldTest, TooLongAMessageFailsItsReceiveAlone) {
  SimWorld world(2, Options(3));
  Recorder sent;
  Recorder received;
  const uint64_t value = 7;
  uint64_t got = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(world.transport(Rank(0))->PostSend(Rank(1), 1, BytesOf(value), &sent, i));
  }
  ASSERT_OK(
      world.transport(Rank(1))->PostRecv(Rank(0), 1, BytesOf(got).subspan(0, 3), &received, 0));
  ASSERT_OK(world.transport(Rank(1))->PostRecv(Rank(0), 1, BytesOf(got), &received, 1));
  const std::vector<std::function<bool()>> ranks = {Until(world.transport(Rank(0)), sent, 2),
                                                    Until(world.transport(Rank(1)), received, 2)};
  ASSERT_OK(world.Run(ranks));
  for (const Event& event : received.events) {
    EXPECT_EQ(event.status.code(),
              event.token == 0 ? absl::StatusCode::kOutOfRange : absl::StatusCode::kOk);
  }
  EXPECT_EQ(got, 7u);
}

TEST_P(SimWorldTest, AbortCompletesEverythingWithItsCauseOnce) {
  SimWorld world(2, Options(5));
  Recorder recorder;
  uint64_t got = 0;
  const uint64_t value = 7;
  Transport* transport = world.transport(Rank(0));
  ASSERT_OK(transport->PostRecv(Rank(1), 1, BytesOf(got), &recorder, 0));
  ASSERT_OK(transport->PostSend(Rank(1), 1, BytesOf(value), &recorder, 1));
  transport->Abort(absl::CancelledError("first"));
  transport->Abort(absl::InternalError("second"));
  for (int i = 0; i < 3; ++i) transport->Progress();
  ASSERT_EQ(recorder.events.size(), 2u);
  for (const Event& event : recorder.events) {
    const bool eager_send = event.token == 1 && event.status.ok();
    EXPECT_TRUE(eager_send || event.status == absl::CancelledError("first"));
  }
  EXPECT_THAT(transport->PostSend(Rank(1), 1, BytesOf(value), &recorder, 2),
              StatusIs(absl::StatusCode::kCancelled, "first"));
}

TEST_P(SimWorldTest, ReceivesAreTakenBackUnlessAMessageHasMetThem) {
  SimWorld world(2, Options(3));
  Transport* const receiver = world.transport(Rank(1));
  Recorder sent, taken, kept;
  uint64_t out = 7, met = 0, unmet = 0, other = 0;
  ASSERT_OK(receiver->PostRecv(Rank(0), 1, BytesOf(met), &taken, 1));
  ASSERT_OK(world.transport(Rank(0))->PostSend(Rank(1), 1, BytesOf(out), &sent, 0));
  ASSERT_OK(world.Run({{Until(world.transport(Rank(0)), sent, 1), Until(receiver, taken, 1)}}));
  ASSERT_OK(receiver->PostRecv(Rank(0), 2, BytesOf(unmet), &taken, 2));
  ASSERT_OK(receiver->PostRecv(Rank(0), 3, BytesOf(other), &kept, 3));
  receiver->CancelReceives(&taken);
  ASSERT_EQ(taken.events.size(), 1u) << "completed outside of Progress";
  receiver->Progress();
  ASSERT_EQ(taken.events.size(), 2u);
  EXPECT_OK(taken.events[0].status);
  EXPECT_EQ(met, out);
  EXPECT_EQ(taken.events[1].token, 2u);
  EXPECT_THAT(taken.events[1].status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(kept.events.empty());
  // The message goes to whoever asks next.
  ASSERT_OK(world.transport(Rank(0))->PostSend(Rank(1), 2, BytesOf(out), &sent, 0));
  ASSERT_OK(receiver->PostRecv(Rank(0), 2, BytesOf(unmet), &kept, 4));
  ASSERT_OK(world.Run({{Until(world.transport(Rank(0)), sent, 2), Until(receiver, kept, 1)}}));
  EXPECT_EQ(unmet, out);
}

INSTANTIATE_TEST_SUITE_P(SendModes, SimWorldTest,
                         ::testing::Values(SendMode::kEager, SendMode::kRendezvous,
                                           SendMode::kMixed));

TEST(SimWorldRunTest, RendezvousSendWaitsForItsReceive) {
  SimWorld world(2, {.send_mode = SendMode::kRendezvous});
  Recorder sent;
  const uint64_t value = 7;
  ASSERT_OK(
      world.transport(Rank(0))->PostSend(Rank(1), MakeTag(1, 2, 3), BytesOf(value), &sent, 0));
  const std::vector<std::function<bool()>> ranks = {Until(world.transport(Rank(0)), sent, 1),
                                                    [] { return true; }};
  EXPECT_THAT(world.Run(ranks),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "deadlock: rank 0 waits for rank 1 to receive (communicator 1, operation 2, "
                       "lane 3)"));
  uint64_t got = 0;
  Recorder received;
  ASSERT_OK(
      world.transport(Rank(1))->PostRecv(Rank(0), MakeTag(1, 2, 3), BytesOf(got), &received, 0));
  ASSERT_OK(world.Run(ranks));
  EXPECT_EQ(got, 7u);
}

TEST(SimWorldRunTest, CircularWaitIsADeadlock) {
  SimWorld world(3, {});
  std::vector<Recorder> recorders(3);
  std::array<uint64_t, 3> got{};
  std::vector<std::function<bool()>> ranks;
  for (int r = 0; r < 3; ++r) {
    ASSERT_OK(world.transport(Rank(r))->PostRecv(Rank((r + 1) % 3), 0, BytesOf(got[r]),
                                                 &recorders[r], 0));
    ranks.push_back(Until(world.transport(Rank(r)), recorders[r], 1));
  }
  EXPECT_THAT(world.Run(ranks),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("rank 0 waits for a message from rank 1"),
                             HasSubstr("rank 2 waits for a message from rank 0"))));
}

TEST(SimWorldRunTest, LoudDeathFailsOperationsWithTheDeadRank) {
  SimWorld world(3, {.send_mode = SendMode::kRendezvous});
  Recorder recorder;
  std::array<uint64_t, 2> got{};
  const uint64_t value = 7;
  Transport* survivor = world.transport(Rank(0));
  ASSERT_OK(survivor->PostRecv(Rank(2), 0, BytesOf(got[0]), &recorder, 0));
  ASSERT_OK(survivor->PostSend(Rank(2), 0, BytesOf(value), &recorder, 1));
  ASSERT_OK(survivor->PostRecv(Rank(1), 0, BytesOf(got[1]), &recorder, 2));
  world.Kill(Rank(2), /*silent=*/false);
  survivor->Progress();
  ASSERT_EQ(recorder.events.size(), 2u);
  for (const Event& event : recorder.events) {
    EXPECT_THAT(event.status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 2")));
  }
  EXPECT_THAT(survivor->PostSend(Rank(2), 0, BytesOf(value), &recorder, 3),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 2")));
}

TEST(SimWorldRunTest, SilentDeathTellsNobody) {
  SimWorld world(2, {.send_mode = SendMode::kRendezvous});
  Recorder recorder;
  Recorder dead;
  uint64_t got = 0;
  const uint64_t value = 7;
  ASSERT_OK(world.transport(Rank(1))->PostRecv(Rank(0), 0, BytesOf(got), &dead, 0));
  world.Kill(Rank(1), /*silent=*/true);
  ASSERT_OK(world.transport(Rank(0))->PostSend(Rank(1), 0, BytesOf(value), &recorder, 0));
  const std::vector<std::function<bool()>> ranks = {Until(world.transport(Rank(0)), recorder, 1),
                                                    [] { return false; }};
  EXPECT_THAT(world.Run(ranks),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("rank 1 is dead")));
  EXPECT_TRUE(dead.events.empty());
}

TEST(SimWorldRunTest, FaultStrikesAtItsEvent) {
  SimWorld world(2, {.fault = SimFault{.victim = Rank(1), .at_event = 2}});
  Recorder recorder;
  const uint64_t value = 7;
  Transport* sender = world.transport(Rank(0));
  ASSERT_OK(sender->PostSend(Rank(1), 0, BytesOf(value), &recorder, 0));
  ASSERT_OK(sender->PostSend(Rank(1), 0, BytesOf(value), &recorder, 1));
  EXPECT_FALSE(world.IsDead(Rank(1)));
  EXPECT_THAT(sender->PostSend(Rank(1), 0, BytesOf(value), &recorder, 2),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(world.IsDead(Rank(1)));
}

// The order in which two streams arrive, as drawn from `seed`.
std::vector<uint64_t> ArrivalOrder(uint64_t seed) {
  SimWorld world(3, {.seed = seed, .send_mode = SendMode::kEager});
  Recorder sent;
  Recorder received;
  std::array<uint64_t, 6> got{};
  const uint64_t value = 7;
  for (int i = 0; i < 6; ++i) {
    const Rank source(1 + i % 2);
    EXPECT_OK(world.transport(Rank(0))->PostRecv(source, i, BytesOf(got[i]), &received, i));
    EXPECT_OK(world.transport(source)->PostSend(Rank(0), i, BytesOf(value), &sent, i));
  }
  const std::vector<std::function<bool()>> ranks = {Until(world.transport(Rank(0)), received, 6),
                                                    [] { return true; }, [] { return true; }};
  EXPECT_OK(world.Run(ranks));
  std::vector<uint64_t> order;
  for (const Event& event : received.events) order.push_back(event.token);
  return order;
}

TEST(SimWorldRunTest, SeedDecidesTheOrder) {
  int different = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(ArrivalOrder(seed), ArrivalOrder(seed));
    if (ArrivalOrder(seed) != ArrivalOrder(seed + 1)) ++different;
  }
  EXPECT_GT(different, 40);
}

TEST(SimWorldRunTest, PostedReceiveHoldsGarbageUntilItCompletes) {
  SimWorld world(2, {});
  Recorder recorder;
  uint64_t got = 0;
  ASSERT_OK(world.transport(Rank(0))->PostRecv(Rank(1), 0, BytesOf(got), &recorder, 0));
  EXPECT_NE(got, 0u);
}

TEST(SimWorldRunTest, WaitingInVainMovesTheClock) {
  SimWorld world(2, {});
  Transport* transport = world.transport(Rank(0));
  transport->WaitForEvent(Deadline::After(*world.clock(), absl::Seconds(3)));
  EXPECT_EQ(world.clock()->Now(), absl::Seconds(3));
  transport->WaitForEvent(Deadline::InfiniteFuture());
  EXPECT_EQ(world.clock()->Now(), absl::Seconds(3));
}

// Rank 0 sends to rank 1 as soon as it is polled, and rank 1 sends it back.
TEST(SimWorldLinksTest, ClockShowsWhenMessagesArrive) {
  SimWorld world(2,
                 {.links = LinkOptions{.latency = absl::Microseconds(5), .rank_bandwidth = 1e9}});
  Recorder sent, received;
  std::vector<std::byte> out(1000), there(1000), back(1000);
  ASSERT_OK(world.transport(Rank(0))->PostSend(Rank(1), 1, out, &sent, 0));
  ASSERT_OK(world.transport(Rank(0))->PostRecv(Rank(1), 1, absl::MakeSpan(back), &received, 0));
  Recorder echoed;
  absl::Duration sent_at, received_at;
  ASSERT_OK(world.transport(Rank(1))->PostRecv(Rank(0), 1, absl::MakeSpan(there), &echoed, 0));
  const auto first = [&] {
    world.transport(Rank(0))->Progress();
    if (sent.events.size() == 1 && sent_at == absl::ZeroDuration()) sent_at = world.clock()->Now();
    received_at = world.clock()->Now();
    return received.events.size() == 1;
  };
  bool answered = false;
  const auto second = [&] {
    world.transport(Rank(1))->Progress();
    if (echoed.events.size() == 1 && !answered) {
      answered = true;
      EXPECT_EQ(world.clock()->Now(), absl::Microseconds(6));
      EXPECT_OK(world.transport(Rank(1))->PostSend(Rank(0), 1, there, &echoed, 1));
    }
    return echoed.events.size() == 2;
  };
  ASSERT_OK(world.Run({first, second}));
  EXPECT_EQ(sent_at, absl::Microseconds(1)) << "out of the sender's hands";
  EXPECT_EQ(received_at, absl::Microseconds(12));
  EXPECT_EQ(world.links()->messages(), 2);
  EXPECT_EQ(world.links()->most_sent_by_rank(), 1000);
}

TEST(SimWorldLinksTest, EndlessWaitIsADeadlockStill) {
  SimWorld world(2, {.links = LinkOptions{}});
  Recorder recorder;
  uint64_t got = 0;
  ASSERT_OK(world.transport(Rank(0))->PostRecv(Rank(1), 0, BytesOf(got), &recorder, 0));
  const std::vector<std::function<bool()>> ranks = {Until(world.transport(Rank(0)), recorder, 1),
                                                    [] { return true; }};
  EXPECT_THAT(world.Run(ranks), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("rank 0 waits for a message from rank 1")));
}

TEST(SimWorldLinksTest, AbortCompletesWhatIsOnItsWayOnce) {
  SimWorld world(2, {.links = LinkOptions{}});
  Recorder recorder;
  const uint64_t value = 7;
  Transport* transport = world.transport(Rank(0));
  ASSERT_OK(transport->PostSend(Rank(1), 1, BytesOf(value), &recorder, 1));
  transport->Abort(absl::CancelledError("first"));
  const std::vector<std::function<bool()>> ranks = {Until(transport, recorder, 2),
                                                    [] { return true; }};
  EXPECT_THAT(world.Run(ranks), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_EQ(recorder.events.size(), 1u);
  EXPECT_EQ(recorder.events[0].status, absl::CancelledError("first"));
}

TEST(SimWorldConnectTest, RanksAreWhatTheAddressesSay) {
  SimWorld world(2, {.connected = false});
  Recorder recorder;
  const uint64_t value = 7;
  uint64_t got = 0;
  Transport* a = world.transport(Rank(0));
  Transport* b = world.transport(Rank(1));
  EXPECT_THAT(a->PostSend(Rank(1), 0, BytesOf(value), &recorder, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  const std::vector<std::string> addresses = {b->LocalAddress(), a->LocalAddress()};
  EXPECT_THAT(a->Connect(Rank(2), addresses, Epoch(1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(a->Connect(Rank(1), {"sim:9", "x"}, Epoch(1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK(a->Connect(Rank(1), addresses, Epoch(1)));
  ASSERT_OK(b->Connect(Rank(0), addresses, Epoch(1)));
  ASSERT_OK(a->PostSend(Rank(0), 0, BytesOf(value), &recorder, 0));
  ASSERT_OK(b->PostRecv(Rank(1), 0, BytesOf(got), &recorder, 1));
  const std::vector<std::function<bool()>> ranks = {Until(a, recorder, 2), Until(b, recorder, 2)};
  ASSERT_OK(world.Run(ranks));
  EXPECT_EQ(got, 7u);
}

TEST(SimWorldConnectTest, WrongPeerOrTagIsRefused) {
  SimWorld world(2, {});
  Recorder recorder;
  const uint64_t value = 7;
  Transport* transport = world.transport(Rank(0));
  EXPECT_THAT(transport->PostSend(Rank(2), 0, BytesOf(value), &recorder, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(transport->PostSend(Rank(1), kMaxTag + 1, BytesOf(value), &recorder, 0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SimWorldTest, RanksOfOneHostShareMemory) {
  SimWorld world(3, {});
  const std::vector<Transport*> transports = {world.transport(Rank(0)), world.transport(Rank(1)),
                                              world.transport(Rank(2))};
  EXPECT_THAT(conformance::CheckSharedMemory(transports), ::testing::IsEmpty());

  SimWorld apart(2, {.hosts = {0, 1}});
  ASSERT_OK_AND_ASSIGN(auto region, apart.transport(Rank(0))->AllocateShared(1));
  EXPECT_THAT(apart.transport(Rank(1))->MapShared(Rank(0), region->key()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another host")));
}

// Rank 0 waits for what rank 1 stores; only shared memory changes.
TEST(SimWorldTest, StoresIntoSharedMemoryCountAsMovement) {
  SimWorld world(2, {});
  ASSERT_OK_AND_ASSIGN(auto region, world.transport(Rank(0))->AllocateShared(1));
  ASSERT_OK_AND_ASSIGN(auto view, world.transport(Rank(1))->MapShared(Rank(0), region->key()));
  constexpr int kLast = 100;
  const auto wait = [&] { return region->bytes()[0] == std::byte{kLast}; };
  int next = 0;
  const auto store = [&] {
    view->bytes()[0] = static_cast<std::byte>(++next);
    return next == kLast;
  };
  EXPECT_OK(world.Run({wait, store}));
  region->bytes()[0] = std::byte{0};
  const auto idle = [] { return false; };
  EXPECT_THAT(world.Run({wait, idle}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deadlock")));
}

}  // namespace
}  // namespace rz
