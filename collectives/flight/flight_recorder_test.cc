#include "collectives/flight/flight_recorder.h"

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rz {
namespace {

CallDescriptor Call(int64_t number) {
  CallDescriptor call;
  call.kind = static_cast<uint8_t>(Collective::kAllReduce);
  call.dtype = static_cast<uint8_t>(DType::kBFloat16);
  call.op = static_cast<uint8_t>(ReduceOp::kMax);
  call.algorithm = static_cast<uint8_t>(Algorithm::kPairwise);
  call.number = number;
  call.count = number * 10;
  return call;
}

TEST(FlightRecorderTest, EntriesSayWhatWasCalledAndHowItWent) {
  ManualClock clock;
  FlightRecorder recorder(8, &clock);
  EXPECT_TRUE(recorder.Entries().empty());
  recorder.Start(Call(1));
  clock.Advance(absl::Seconds(2));
  recorder.End(1, FlightState::kDone);
  recorder.Start(Call(2));
  recorder.SetPosition(2, {3, 4, 5});
  recorder.Start(Call(3));
  recorder.End(3, FlightState::kFailed);

  const std::vector<FlightEntry> entries = recorder.Entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(recorder.last_number(), 3);
  EXPECT_EQ(entries[0].number, 1);
  EXPECT_EQ(entries[0].kind, "all_reduce");
  EXPECT_EQ(entries[0].dtype, "bfloat16");
  EXPECT_EQ(entries[0].op, "max");
  EXPECT_EQ(entries[0].algorithm, "pairwise");
  EXPECT_EQ(entries[0].count, 10);
  EXPECT_EQ(entries[0].root, -1);
  EXPECT_EQ(entries[0].state, FlightState::kDone);
  EXPECT_EQ(entries[0].ended - entries[0].started, absl::Seconds(2));
  EXPECT_EQ(entries[0].position, FlightPosition());
  EXPECT_EQ(entries[1].state, FlightState::kStarted);
  EXPECT_EQ(entries[1].ended, absl::InfiniteFuture());
  EXPECT_EQ(entries[1].position, (FlightPosition{3, 4, 5}));
  EXPECT_EQ(entries[2].state, FlightState::kFailed);
}

TEST(FlightRecorderTest, KeepsTheLastOperations) {
  ManualClock clock;
  FlightRecorder recorder(8, &clock);
  for (int64_t n = 1; n <= 100; ++n) {
    recorder.Start(Call(n));
    if (n < 93) recorder.SetPosition(n, {1, 2, 3});
    if (n > 1) recorder.End(n - 1, FlightState::kDone);
  }
  const std::vector<FlightEntry> entries = recorder.Entries();
  ASSERT_EQ(entries.size(), 8u);
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].number, static_cast<int64_t>(93 + i));
    EXPECT_EQ(entries[i].count, entries[i].number * 10);
    EXPECT_EQ(entries[i].state, i < 7 ? FlightState::kDone : FlightState::kStarted);
    EXPECT_EQ(entries[i].position, FlightPosition()) << "that of an earlier operation in its place";
  }
}

TEST(FlightRecorderTest, NewsOfAnOperationThatIsGoneChangesNothing) {
  ManualClock clock;
  FlightRecorder recorder(4, &clock);
  for (int64_t n = 1; n <= 5; ++n) recorder.Start(Call(n));
  recorder.End(1, FlightState::kFailed);
  recorder.SetPosition(1, {1, 1, 1});
  const std::vector<FlightEntry> entries = recorder.Entries();
  ASSERT_EQ(entries.back().number, 5);
  EXPECT_EQ(entries.back().state, FlightState::kStarted);
  EXPECT_EQ(entries.back().position, FlightPosition());
}

TEST(FlightRecorderTest, WhoWasWaitedForStaysOnRecordWithinARound) {
  ManualClock clock;
  FlightRecorder recorder(4, &clock);
  recorder.Start(Call(1));
  recorder.SetPosition(1, {2, 1, 7});
  recorder.SetPosition(1, {2, 1, -1});
  EXPECT_EQ(recorder.Entries()[0].position, (FlightPosition{2, 1, 7}));
  recorder.SetPosition(1, {2, 1, 8});
  EXPECT_EQ(recorder.Entries()[0].position, (FlightPosition{2, 1, 8}));
  recorder.SetPosition(1, {2, 2, -1});
  EXPECT_EQ(recorder.Entries()[0].position, (FlightPosition{2, 2, -1}));
}

TEST(FlightRecorderTest, PositionsThatDoNotFitAreCut) {
  ManualClock clock;
  FlightRecorder recorder(4, &clock);
  recorder.Start(Call(1));
  recorder.SetPosition(1, {2'000'000'000, 1'000'000, 1'000'000});
  EXPECT_EQ(recorder.Entries()[0].position, (FlightPosition{2'000'000'000, 0xffff, 0xfffe}));
}

TEST(FlightRecorderTest, EqualCallsAfterEqualCallsHaveEqualHashes) {
  ManualClock clock;
  FlightRecorder a(4, &clock);
  FlightRecorder b(4, &clock);
  a.Start(Call(1));
  b.Start(Call(1));
  CallDescriptor other = Call(2);
  a.Start(other);
  other.history = 1;
  b.Start(other);
  EXPECT_EQ(a.Entries()[0].call_hash, b.Entries()[0].call_hash);
  EXPECT_NE(a.Entries()[1].call_hash, b.Entries()[1].call_hash);
}

TEST(FlightRecorderTest, TimesAreThoseOfTheWall) {
  FlightRecorder recorder(4, Clock::Steady());
  const absl::Time before = absl::Now();
  recorder.Start(Call(1));
  recorder.End(1, FlightState::kDone);
  const absl::Time after = absl::Now();
  const FlightEntry entry = recorder.Entries()[0];
  // The counter's rate is measured over the recorder's short life, so it is not exact.
  constexpr absl::Duration kTolerance = absl::Seconds(1);
  EXPECT_GE(entry.started, before - kTolerance);
  EXPECT_LE(entry.ended, after + kTolerance);
  EXPECT_LE(entry.started, entry.ended);
}

TEST(FlightRecorderTest, ReadersSeeWholeEntriesWhileTheOwnerWrites) {
  // So small that what is read is mostly what is being written.
  FlightRecorder recorder(2, Clock::Steady());
  std::atomic<bool> stop{false};
  std::thread owner([&] {
    for (int64_t n = 1; !stop.load(); ++n) {
      recorder.Start(Call(n));
      recorder.SetPosition(n, {static_cast<int32_t>(n), 1, 2});
      recorder.End(n, FlightState::kDone);
    }
  });
  size_t seen = 0;
  int64_t torn = 0;
  for (int reads = 0; seen < 10'000 || reads < 300'000; ++reads) {
    for (const FlightEntry& entry : recorder.Entries()) {
      ++seen;
      if (entry.count != entry.number * 10) ++torn;
    }
  }
  EXPECT_EQ(torn, 0);
  stop = true;
  owner.join();
}

}  // namespace
}  // namespace rz
