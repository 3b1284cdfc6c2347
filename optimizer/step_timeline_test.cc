#include "optimizer/step_timeline.h"

#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/step_trace.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;

constexpr absl::Duration kMillisecond = absl::Milliseconds(1);

TEST(StepTimelineTest, PartsAreWhatWasEnteredAndTheRestIsOther) {
  ManualClock clock;
  StepTimeline timeline(&clock);
  clock.Advance(100 * kMillisecond);
  timeline.Begin();
  clock.Advance(1 * kMillisecond);
  {
    const StepSection forward(&timeline, StepPart::kForward);
    clock.Advance(2 * kMillisecond);
    const StepSection waiting(&timeline, StepPart::kCommunication);
    clock.Advance(4 * kMillisecond);
  }
  clock.Advance(8 * kMillisecond);
  timeline.Enter(StepPart::kOptimizer);
  clock.Advance(16 * kMillisecond);
  const StepTimes times = timeline.End();
  EXPECT_EQ(times[StepPart::kForward], 2 * kMillisecond);
  EXPECT_EQ(times[StepPart::kCommunication], 4 * kMillisecond);
  EXPECT_EQ(times[StepPart::kOptimizer], 16 * kMillisecond);
  EXPECT_EQ(times[StepPart::kOther], 9 * kMillisecond);
  EXPECT_EQ(times.total(), 31 * kMillisecond);
  EXPECT_EQ(times.hidden, absl::ZeroDuration());
}

TEST(StepTimelineTest, HiddenIsWhatPassesOutsideCommunicationWhileACollectiveIsUnderWay) {
  ManualClock clock;
  StepTimeline timeline(&clock);
  timeline.Begin();
  timeline.Enter(StepPart::kBackward);
  clock.Advance(1 * kMillisecond);  // nothing is under way
  for (int i = 0; i < 2; ++i) {
    const StepSection moving(&timeline, StepPart::kCommunication);
    clock.Advance(2 * kMillisecond);
    timeline.CollectiveBegan(TraceKind::kReduce, {0, i}, 8);
  }
  clock.Advance(4 * kMillisecond);  // two are: counted once
  {
    const StepSection moving(&timeline, StepPart::kCommunication);
    timeline.CollectiveEnded(TraceKind::kReduce, {0, 1});
  }
  clock.Advance(8 * kMillisecond);  // one is
  {
    const StepSection waiting(&timeline, StepPart::kCommunication);
    clock.Advance(16 * kMillisecond);
    timeline.CollectiveEnded(TraceKind::kReduce, {0, 0});
  }
  clock.Advance(32 * kMillisecond);
  const StepTimes times = timeline.End();
  EXPECT_EQ(times.hidden, 12 * kMillisecond);
  EXPECT_EQ(times[StepPart::kCommunication], 20 * kMillisecond);
  EXPECT_EQ(times[StepPart::kBackward], 45 * kMillisecond);
}

TEST(StepTimelineTest, AnotherThreadChangesNothing) {
  ManualClock clock;
  StepTimeline timeline(&clock);
  timeline.Begin();
  timeline.Enter(StepPart::kBackward);
  std::thread([&] {
    const StepSection kernel(&timeline, StepPart::kOptimizer);
    clock.Advance(1 * kMillisecond);
  }).join();
  const StepTimes times = timeline.End();
  EXPECT_EQ(times[StepPart::kBackward], 1 * kMillisecond);
  EXPECT_EQ(times[StepPart::kOptimizer], absl::ZeroDuration());
}

TEST(StepTimelineTest, BetweenStepsNothingIsMeasured) {
  ManualClock clock;
  StepTimeline timeline(&clock);
  for (int step = 0; step < 2; ++step) {
    {
      const StepSection between(&timeline, StepPart::kCommunication);
      clock.Advance(kMillisecond);
    }
    timeline.Begin();
    clock.Advance(kMillisecond);
    timeline.Begin();  // has begun
    clock.Advance(kMillisecond);
    const StepTimes times = timeline.End();
    EXPECT_EQ(times.total(), 2 * kMillisecond);
    EXPECT_EQ(times[StepPart::kOther], 2 * kMillisecond);
  }
}

TEST(StepTimelineTest, TraceHasEveryStayAndEveryCollective) {
  ManualClock clock;
  StepTimeline timeline(&clock);
  StepTrace trace(100);
  timeline.set_trace(&trace);
  timeline.CollectiveBegan(TraceKind::kGather, {2, -1}, 8);  // before the step: left out
  timeline.CollectiveEnded(TraceKind::kGather, {2, -1});
  timeline.Begin();
  timeline.Enter(StepPart::kBackward, {1, -1});
  clock.Advance(1 * kMillisecond);
  {
    const StepSection moving(&timeline, StepPart::kCommunication);
    timeline.CollectiveBegan(TraceKind::kReduce, {1, 7}, 64);
    clock.Advance(2 * kMillisecond);
  }
  clock.Advance(4 * kMillisecond);
  timeline.Enter(StepPart::kBackward, {0, -1});  // the same part, elsewhere
  clock.Advance(8 * kMillisecond);
  timeline.Enter(StepPart::kCommunication);
  timeline.CollectiveEnded(TraceKind::kReduce, {1, 7});
  timeline.End();
  std::vector<std::string> events;
  for (const TraceEvent& event : trace.TakeSorted(1)) {
    EXPECT_EQ(event.step, 1);
    events.push_back(absl::StrCat(static_cast<int>(event.kind), " unit ", event.place.unit, " ",
                                  event.place.bucket, ": ", event.begin_ns / 1'000'000, " to ",
                                  event.end_ns / 1'000'000, ", ", event.bytes));
  }
  EXPECT_THAT(events, ::testing::ElementsAre("1 unit 1 -1: 0 to 1, 0", "2 unit -1 -1: 1 to 3, 0",
                                             "5 unit 1 7: 1 to 15, 64", "1 unit 1 -1: 3 to 7, 0",
                                             "1 unit 0 -1: 7 to 15, 0"));
}

// A clock that a look at makes go on, so that no two moments are the same.
class TickingClock : public Clock {
 public:
  absl::Duration Now() const override { return absl::Nanoseconds(++ticks_); }
  int64_t ticks() const { return ticks_; }

 private:
  mutable int64_t ticks_ = 0;
};

// Two layers of which the last is computed for 5 ms and the first for 7 in each pass, by a rank
// alone, whose collectives take no time of this clock.
StepTimes TimesOfAStep(const ZeroConfig& config, ManualClock* clock) {
  ZeroConfig own = config;
  own.announce_gradients = true;
  own.tile_chunk = 32;
  own.reduce_bucket_size = 1;
  const absl::StatusOr<std::unique_ptr<SimRanks>> ranks =
      SimRanks::Create(1, "", {{"a", {64}, 0}, {"b", {64}, 1}}, own,
                       [&](int, ZeroConfig* rank) { rank->clock = clock; });
  EXPECT_OK(ranks);
  ZeroOptimizer& optimizer = (*ranks)->optimizer(0);
  EXPECT_OK(optimizer.Initialize([](size_t, absl::Span<float>) {}));
  const std::vector<float> gradient(64, 1.0f);
  optimizer.timeline()->Begin();
  clock->Advance(3 * kMillisecond);
  optimizer.timeline()->Enter(StepPart::kForward);
  for (const size_t unit : {0, 1}) {
    EXPECT_OK(optimizer.Gather(unit, Pass::kForward));
    clock->Advance(unit == 0 ? 7 * kMillisecond : 5 * kMillisecond);
    EXPECT_OK(optimizer.Release(unit, Pass::kForward));
  }
  optimizer.timeline()->Enter(StepPart::kBackward);
  for (const size_t unit : {1, 0}) {
    EXPECT_OK(optimizer.Gather(unit, Pass::kBackward));
    clock->Advance(unit == 0 ? 7 * kMillisecond : 5 * kMillisecond);
    EXPECT_OK(optimizer.AddGradient(unit, gradient));
    EXPECT_OK(optimizer.Release(unit, Pass::kBackward));
  }
  const absl::StatusOr<StepReport> report = optimizer.Step({});
  EXPECT_OK(report);
  return report.ok() ? report->times : StepTimes();
}

TEST(StepTimelineTest, ForwardAndBackwardAreTheProgramsOwnInEveryStage) {
  for (const ZeroStage stage :
       {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree}) {
    SCOPED_TRACE(NameOf(stage));
    ManualClock clock;
    ZeroConfig config;
    config.stage = stage;
    const StepTimes times = TimesOfAStep(config, &clock);
    EXPECT_EQ(times[StepPart::kForward], 12 * kMillisecond);
    EXPECT_EQ(times[StepPart::kBackward], 12 * kMillisecond);
    EXPECT_EQ(times[StepPart::kOther], 3 * kMillisecond);
    EXPECT_EQ(times[StepPart::kCommunication], absl::ZeroDuration());
    EXPECT_EQ(times.total(), 27 * kMillisecond);
  }
}

// Rank 0 announces the gradient of the last layer, computes for 7 ms, announces the other one and
// waits for 9 ms in the step; only then does rank 1 take part.
StepTimes TimesOfAnEarlyRank(ZeroConfig config) {
  ManualClock clock;
  config.announce_gradients = true;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 1;
  const absl::StatusOr<std::unique_ptr<SimRanks>> ranks =
      SimRanks::Create(2, "", {{"a", {64}, 0}, {"b", {64}, 1}}, config,
                       [&](int, ZeroConfig* own) { own->clock = &clock; });
  EXPECT_OK(ranks);
  for (const absl::Status& status : (*ranks)->Initialize([](size_t, absl::Span<float>) {})) {
    EXPECT_OK(status);
  }
  const std::vector<float> gradient(64, 1.0f);
  for (int rank = 0; rank < 2; ++rank) {
    ZeroOptimizer& optimizer = (*ranks)->optimizer(rank);
    optimizer.timeline()->Begin();
    optimizer.timeline()->Enter(StepPart::kBackward);
    for (const size_t parameter : {1, 0}) {
      EXPECT_OK(optimizer.StartAddGradient(parameter, gradient));
      EXPECT_TRUE(optimizer.Poll());
      if (rank == 0 && parameter == 1) clock.Advance(7 * kMillisecond);
    }
    EXPECT_OK(optimizer.StartStep({}));
    if (rank == 0) clock.Advance(9 * kMillisecond);
  }
  EXPECT_OK((*ranks)->PollAll());
  const absl::StatusOr<StepReport> report = (*ranks)->optimizer(0).StepResult();
  EXPECT_OK(report);
  return report.ok() ? report->times : StepTimes();
}

TEST(StepTimelineTest, WhatIsReducedDuringBackwardIsHidden_WhatTheStepWaitsForExposed) {
  for (const ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne}) {
    for (const bool overlap : {false, true}) {
      SCOPED_TRACE(::testing::Message() << NameOf(stage) << (overlap ? ", overlapped" : ""));
      ZeroConfig config;
      config.stage = stage;
      config.overlap_communication = overlap;
      const StepTimes times = TimesOfAnEarlyRank(config);
      EXPECT_EQ(times[StepPart::kBackward], 7 * kMillisecond);
      EXPECT_EQ(times[StepPart::kCommunication], 9 * kMillisecond);
      EXPECT_EQ(times.hidden, overlap ? 7 * kMillisecond : absl::ZeroDuration());
      EXPECT_EQ(times.total(), 16 * kMillisecond);
    }
  }
}

// Rank 0 alone; it waits for rank 1, which never comes, until the operation's deadline.
TEST(StepTimelineTest, WaitingForABufferOrForAUnitIsCommunication) {
  for (const ZeroStage stage : {ZeroStage::kTwo, ZeroStage::kThree}) {
    SCOPED_TRACE(NameOf(stage));
    ZeroConfig config;
    config.stage = stage;
    config.tile_chunk = 32;
    config.reduce_bucket_size = 1;
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<SimRanks> ranks,
                         SimRanks::Create(2, "", {{"a", {4096}, 0}}, config));
    for (const absl::Status& status : ranks->Initialize([](size_t, absl::Span<float>) {})) {
      ASSERT_OK(status);
    }
    ZeroOptimizer& optimizer = ranks->optimizer(0);
    optimizer.timeline()->Begin();
    optimizer.timeline()->Enter(StepPart::kBackward);
    const std::vector<float> gradient(4096, 1.0f);
    // More buckets than stage 2 has buffers.
    const absl::Status status = stage == ZeroStage::kTwo ? optimizer.AddGradient(0, gradient)
                                                         : optimizer.Gather(0, Pass::kForward);
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    const StepTimes times = optimizer.timeline()->End();
    EXPECT_GE(times[StepPart::kCommunication], absl::Seconds(100));
    EXPECT_EQ(times[StepPart::kBackward], absl::ZeroDuration());
  }
}

// Every look at its clock takes a rank a moment.
TEST(StepTimelineTest, PartsAddUpToTheWallTimeInAnyRun) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](int64_t from, int64_t to) {
      return std::uniform_int_distribution<int64_t>(from, to)(random);
    };
    ZeroConfig config;
    const int64_t stage = draw(0, 4);
    config.stage = static_cast<ZeroStage>(stage);
    config.announce_gradients = true;
    config.overlap_communication = draw(0, 1) == 1;
    config.tile_chunk = int64_t{32} << draw(0, 2);
    config.reduce_bucket_size = draw(1, 500);
    config.gradient_accumulation_steps = static_cast<int>(draw(1, 3));
    config.accumulation = draw(0, 1) == 1 ? AccumulationPolicy::kShard : AccumulationPolicy::kLocal;
    std::vector<ParamSpec> specs;
    for (int unit = 0; unit < draw(1, 4); ++unit) {
      specs.push_back({"p" + std::to_string(unit), {draw(1, 700)}, unit});
    }
    const int world = static_cast<int>(draw(1, 4));
    std::vector<TickingClock> clocks(static_cast<size_t>(world));
    ASSERT_OK_AND_ASSIGN(
        std::unique_ptr<SimRanks> ranks,
        SimRanks::Create(
            world, "", specs, config,
            [&](int rank, ZeroConfig* own) { own->clock = &clocks[static_cast<size_t>(rank)]; },
            seed));
    for (const absl::Status& status : ranks->Initialize([](size_t, absl::Span<float>) {})) {
      ASSERT_OK(status);
    }
    for (int step = 0; step < 2; ++step) {
      std::vector<int64_t> begins;
      for (int rank = 0; rank < world; ++rank) {
        ranks->optimizer(rank).timeline()->Begin();
        begins.push_back(clocks[static_cast<size_t>(rank)].ticks());
      }
      for (int micro = 1; micro <= config.gradient_accumulation_steps; ++micro) {
        // Of some parameters on some ranks.
        for (int rank = 0; rank < world; ++rank) {
          for (auto i = static_cast<size_t>(draw(0, 1)); i < specs.size(); ++i)
            ranks->SetGradient(rank, i, 0, 1);
        }
        if (micro == config.gradient_accumulation_steps) break;
        for (const absl::Status& status : ranks->EndMicroStep()) ASSERT_OK(status);
      }
      const std::vector<absl::StatusOr<StepReport>> reports = ranks->Step();
      for (size_t rank = 0; rank < reports.size(); ++rank) {
        ASSERT_OK(reports[rank]);
        const StepTimes& times = reports[rank]->times;
        // The last look at the clock ends the step.
        EXPECT_EQ(times.total(), absl::Nanoseconds(clocks[rank].ticks() - begins[rank]));
        for (const absl::Duration part : times.parts) EXPECT_GE(part, absl::ZeroDuration());
        EXPECT_LE(times.hidden, times.total() - times[StepPart::kCommunication]);
        EXPECT_GT(times[StepPart::kCommunication], absl::ZeroDuration());
        EXPECT_GT(times[StepPart::kOptimizer], absl::ZeroDuration());
      }
    }
  }
}

// Of each kind of collective, the bytes of a step's; none where there was none.
std::map<TraceKind, int64_t> BytesOfAStep(const ZeroConfig& config) {
  const auto ranks = SimRanks::Create(2, SimRanks::kSharedMemory, {{"a", {4096}, 0}}, config);
  EXPECT_OK(ranks.status());
  for (const absl::Status& status : (*ranks)->Initialize([](size_t, absl::Span<float>) {})) {
    EXPECT_OK(status);
  }
  StepTrace trace(100);
  (*ranks)->optimizer(0).timeline()->set_trace(&trace);
  for (const auto& report : (*ranks)->Step()) EXPECT_OK(report.status());
  std::map<TraceKind, int64_t> bytes;
  for (const TraceEvent& event : trace.TakeSorted(1)) {
    if (event.kind >= TraceKind::kReduce) bytes[event.kind] += event.bytes;
  }
  return bytes;
}

TEST(StepTimelineTest, ATraceHasTheCollectivesThatThereWereWithTheirBytes) {
  ZeroConfig config;
  config.stage = ZeroStage::kOne;
  config.communication_dtype = DType::kFloat32;
  EXPECT_EQ(BytesOfAStep(config)[TraceKind::kReduce], 4096 * 4);
  EXPECT_EQ(BytesOfAStep(config)[TraceKind::kGather], 4096 * 2);
  config.communication_dtype.reset();
  config.fuse_step = true;
  EXPECT_EQ(BytesOfAStep(config)[TraceKind::kReduce], 4096 * 2);
  config.inspect_gradients = false;
  EXPECT_FALSE(BytesOfAStep(config).contains(TraceKind::kReduce));
}

}  // namespace
}  // namespace rz
