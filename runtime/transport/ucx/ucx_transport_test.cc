// What is UCX's own beside the contract, which ucx_conformance_test proves: lanes, errors' words,
// how ranks leave.
#include "runtime/transport/ucx/ucx_transport.h"

#include <poll.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr absl::Duration kGenerous = absl::Seconds(60);

UcxOptions Options(UcxOptions::Transports transports) {
  UcxOptions options;
  options.transports = transports;
  if (transports == UcxOptions::Transports::kTcp) options.net_device = "lo";
  options.keepalive_interval = absl::Milliseconds(100);
  // All ranks of these tests share a thread: nobody answers a goodbye.
  options.leave_timeout = absl::ZeroDuration();
  return options;
}

class Sink : public CompletionSink {
 public:
  void OnComplete(uint64_t token, const absl::Status& status, size_t bytes) override {
    statuses.push_back(status);
    moved = bytes;
  }
  bool done() const { return !statuses.empty(); }

  std::vector<absl::Status> statuses;
  size_t moved = 0;
};

class UcxTransportTest : public ::testing::TestWithParam<UcxOptions::Transports> {
 protected:
  void Open(int world) {
    std::vector<std::string> addresses;
    for (int r = 0; r < world; ++r) {
      ASSERT_OK_AND_ASSIGN(auto transport, CreateUcxTransport(Options(GetParam())));
      addresses.push_back(transport->LocalAddress());
      ranks_.push_back(std::move(transport));
    }
    for (int r = 0; r < world; ++r) {
      ASSERT_OK(ranks_[r]->Connect(Rank(r), addresses, Epoch(1)));
    }
  }

  // Moves every rank until `sink` has heard something.
  void AwaitOn(const Sink& sink) {
    const Deadline deadline = Deadline::After(*Clock::Steady(), kGenerous);
    while (!sink.done() && !deadline.HasPassed(*Clock::Steady())) {
      for (auto& rank : ranks_) {
        if (rank != nullptr) rank->Progress();
      }
    }
    ASSERT_EQ(sink.statuses.size(), 1u);
  }

  // One message each way.
  void Exchange() {
    for (int from : {0, 1}) {
      Sink sent, received;
      std::byte out{7}, in{0};
      ASSERT_OK(ranks_[1 - from]->PostRecv(Rank(from), 1, absl::MakeSpan(&in, 1), &received, 0));
      ASSERT_OK(ranks_[from]->PostSend(Rank(1 - from), 1, absl::MakeSpan(&out, 1), &sent, 0));
      AwaitOn(received);
      AwaitOn(sent);
      EXPECT_EQ(in, out);
    }
  }

  std::vector<std::unique_ptr<Transport>> ranks_;
};

INSTANTIATE_TEST_SUITE_P(All, UcxTransportTest,
                         ::testing::Values(UcxOptions::Transports::kTcp,
                                           UcxOptions::Transports::kSharedMemory,
                                           UcxOptions::Transports::kAutomatic),
                         [](const auto& info) -> std::string {
                           switch (info.param) {
                             case UcxOptions::Transports::kTcp:
                               return "Tcp";
                             case UcxOptions::Transports::kSharedMemory:
                               return "SharedMemory";
                             case UcxOptions::Transports::kAutomatic:
                               return "Automatic";
                           }
                           return "Unknown";
                         });

TEST_P(UcxTransportTest, LanesAreWhatWasConfigured) {
  Open(2);
  Exchange();
  // Within a host, automatic is shared memory, and never that of System V.
  const char* lane = GetParam() == UcxOptions::Transports::kTcp ? "tcp" : "posix";
  for (auto& rank : ranks_) {
    EXPECT_THAT(rank->Description(), MatchesRegex(absl::StrCat("ucx [0-9.]+: ", lane)));
  }
}

// Who sleeps elsewhere on the descriptor is woken by what arrives.
TEST_P(UcxTransportTest, ArmedDescriptorShowsAMessage) {
  Open(2);
  Exchange();
  Sink sent, received;
  std::byte out{7}, in{0};
  ASSERT_OK(ranks_[1]->PostRecv(Rank(0), 1, absl::MakeSpan(&in, 1), &received, 0));
  const Deadline deadline = Deadline::After(*Clock::Steady(), kGenerous);
  while (!ranks_[1]->ArmEvent()) {
    ASSERT_FALSE(deadline.HasPassed(*Clock::Steady()));
    ranks_[1]->Progress();
  }
  pollfd descriptor = {ranks_[1]->EventDescriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&descriptor, 1, 0), 0);
  ASSERT_OK(ranks_[0]->PostSend(Rank(1), 1, absl::MakeSpan(&out, 1), &sent, 0));
  while (!sent.done()) ranks_[0]->Progress();
  EXPECT_EQ(poll(&descriptor, 1, static_cast<int>(absl::ToInt64Milliseconds(kGenerous))), 1);
  AwaitOn(received);
  EXPECT_EQ(in, out);
}

TEST_P(UcxTransportTest, AWakeThatWasTakenEndsNoLaterWait) {
  Open(1);
  const Clock& clock = *Clock::Steady();
  for (int i = 0; i < 100; ++i) {
    std::thread waker([this] { ranks_[0]->Wake(); });
    ranks_[0]->WaitForEvent(Deadline::InfiniteFuture());
    waker.join();
    // Where the wait has ended early, the wake is still to be taken.
    ranks_[0]->WaitForEvent(Deadline::After(clock, absl::ZeroDuration()));
    const Deadline later = Deadline::After(clock, absl::Milliseconds(1));
    ranks_[0]->WaitForEvent(later);
    ASSERT_TRUE(later.HasPassed(clock)) << "wake " << i;
  }
}

TEST_P(UcxTransportTest, MessagesThatArrivedBeforeAPeerLeftAreStillReceived) {
  Open(2);
  Exchange();
  Sink sent, never, early;
  std::byte out{42}, in{0}, unused{0};
  ASSERT_OK(ranks_[0]->PostSend(Rank(1), 5, absl::MakeSpan(&out, 1), &sent, 0));
  AwaitOn(sent);
  ASSERT_OK(ranks_[1]->PostRecv(Rank(0), 6, absl::MakeSpan(&unused, 1), &never, 0));
  ranks_[0].reset();
  AwaitOn(never);
  EXPECT_THAT(never.statuses[0],
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 0 has left")));
  ASSERT_OK(ranks_[1]->PostRecv(Rank(0), 5, absl::MakeSpan(&in, 1), &early, 0));
  AwaitOn(early);
  EXPECT_THAT(early.statuses[0], IsOk());
  EXPECT_EQ(in, out);
  EXPECT_THAT(ranks_[1]->PostRecv(Rank(0), 5, absl::MakeSpan(&in, 1), &early, 0),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 0 has left")));
  EXPECT_THAT(ranks_[1]->PostSend(Rank(0), 5, absl::MakeSpan(&out, 1), &early, 0),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 0 has left")));
}

TEST_P(UcxTransportTest, SendsToAPeerThatLeftComplete) {
  Open(2);
  Exchange();
  Sink sent;
  std::vector<std::byte> large(4 << 20);
  ASSERT_OK(ranks_[0]->PostSend(Rank(1), 5, large, &sent, 0));
  ranks_[1].reset();
  AwaitOn(sent);
  EXPECT_THAT(sent.statuses[0], StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1")));
}

// Of a slice of a collective, and of what is too large for one; so the peer need not keep them.
TEST_P(UcxTransportTest, LargeSendsCompleteOnceTheirReceiveIsPosted) {
  Open(2);
  Exchange();
  for (size_t bytes : {size_t{64} << 10, size_t{256} << 10, size_t{4} << 20}) {
    Sink sent, received;
    const std::vector<std::byte> out(bytes, std::byte{7});
    std::vector<std::byte> in(bytes);
    ASSERT_OK(ranks_[0]->PostSend(Rank(1), 5, out, &sent, 0));
    for (int i = 0; i < 10'000; ++i) {
      for (auto& rank : ranks_) rank->Progress();
    }
    EXPECT_FALSE(sent.done()) << bytes;
    ASSERT_OK(ranks_[1]->PostRecv(Rank(0), 5, absl::MakeSpan(in), &received, 0));
    AwaitOn(received);
    AwaitOn(sent);
    EXPECT_THAT(sent.statuses[0], IsOk());
    EXPECT_EQ(in, out);
  }
}

TEST_P(UcxTransportTest, DestructionWithSendsUnderWayIsAnAbortToThePeer) {
  Open(2);
  Exchange();
  Sink dropped, received;
  std::vector<std::byte> large(4 << 20), buffer(4 << 20);
  ASSERT_OK(ranks_[0]->PostSend(Rank(1), 5, large, &dropped, 0));
  ranks_[0].reset();
  EXPECT_FALSE(dropped.done());
  if (ranks_[1]->PostRecv(Rank(0), 5, absl::MakeSpan(buffer), &received, 0).ok()) {
    AwaitOn(received);
    EXPECT_THAT(received.statuses[0],
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 0")));
  }
}

TEST_P(UcxTransportTest, ReceivesAreTakenBackUnlessAMessageHasMetThem) {
  Open(2);
  Exchange();
  Sink taken, own, kept, sent;
  std::byte out{7}, in{0}, unmet{0}, self{0}, other{0};
  ASSERT_OK(ranks_[1]->PostRecv(Rank(0), 2, absl::MakeSpan(&unmet, 1), &taken, 0));
  ASSERT_OK(ranks_[1]->PostRecv(Rank(1), 2, absl::MakeSpan(&self, 1), &own, 0));
  ASSERT_OK(ranks_[1]->PostRecv(Rank(0), 3, absl::MakeSpan(&other, 1), &kept, 0));
  ranks_[1]->CancelReceives(&taken);
  ranks_[1]->CancelReceives(&own);
  EXPECT_FALSE(taken.done() || own.done()) << "completed outside of Progress";
  AwaitOn(taken);
  AwaitOn(own);
  EXPECT_THAT(taken.statuses[0], StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(own.statuses[0], StatusIs(absl::StatusCode::kCancelled));
  EXPECT_FALSE(kept.done());
  // The peer is as well as before, and its message goes to whoever asks next.
  Sink received;
  ASSERT_OK(ranks_[0]->PostSend(Rank(1), 2, absl::MakeSpan(&out, 1), &sent, 0));
  ASSERT_OK(ranks_[1]->PostRecv(Rank(0), 2, absl::MakeSpan(&in, 1), &received, 0));
  AwaitOn(received);
  EXPECT_EQ(in, out);
}

TEST_P(UcxTransportTest, AbortIsToldToPeers) {
  Open(3);
  Exchange();
  Sink sink;
  std::byte in{0};
  ASSERT_OK(ranks_[0]->PostRecv(Rank(1), 5, absl::MakeSpan(&in, 1), &sink, 0));
  for (int i = 0; i < 100; ++i) ranks_[1]->Progress();
  ranks_[1]->Abort(absl::AbortedError("enough"));
  AwaitOn(sink);
  EXPECT_THAT(sink.statuses[0],
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 1 has aborted"), HasSubstr("seen by rank 0"))));
}

TEST_P(UcxTransportTest, ConnectRefusesWhatItCannotUse) {
  ASSERT_OK_AND_ASSIGN(auto transport, CreateUcxTransport(Options(GetParam())));
  const std::string own = transport->LocalAddress();
  EXPECT_THAT(transport->Connect(Rank(1), {own}, Epoch(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 1 in a world of 1")));
  EXPECT_THAT(transport->Connect(Rank(-1), {own}, Epoch(1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(transport->Connect(Rank(0), {own + "x"}, Epoch(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not the one")));
  EXPECT_THAT(transport->Connect(Rank(0), {own, "garbage"}, Epoch(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 1: ")));
}

TEST_P(UcxTransportTest, ConnectWorksOnce) {
  ASSERT_OK_AND_ASSIGN(auto transport, CreateUcxTransport(Options(GetParam())));
  Sink sink;
  std::byte in{0};
  EXPECT_THAT(transport->PostRecv(Rank(0), 5, absl::MakeSpan(&in, 1), &sink, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  const std::string own = transport->LocalAddress();
  ASSERT_OK(transport->Connect(Rank(0), {own}, Epoch(1)));
  EXPECT_THAT(transport->Description(), HasSubstr(": self"));
  EXPECT_THAT(transport->Connect(Rank(0), {own}, Epoch(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(UcxTransportReachTest, NoTransportInCommonIsSaid) {
  ASSERT_OK_AND_ASSIGN(auto a, CreateUcxTransport(Options(UcxOptions::Transports::kTcp)));
  ASSERT_OK_AND_ASSIGN(auto b, CreateUcxTransport(Options(UcxOptions::Transports::kSharedMemory)));
  EXPECT_THAT(a->Connect(Rank(0), {a->LocalAddress(), b->LocalAddress()}, Epoch(1)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1 cannot be reached")));
}

}  // namespace
}  // namespace rz
