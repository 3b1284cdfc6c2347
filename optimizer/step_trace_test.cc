#include "optimizer/step_trace.h"

#include <vector>

#include "gmock/gmock.h"

namespace rz {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TraceEvent Event(int64_t step, int64_t begin, int64_t end, TraceKind kind = TraceKind::kReduce) {
  return {.begin_ns = begin, .end_ns = end, .step = step, .place = {}, .kind = kind};
}

std::vector<int64_t> Begins(absl::Span<const TraceEvent> events) {
  std::vector<int64_t> begins;
  for (const TraceEvent& event : events) begins.push_back(event.begin_ns);
  return begins;
}

std::vector<int32_t> Lanes(std::vector<TraceEvent> events) {
  AssignLanes(absl::MakeSpan(events));
  std::vector<int32_t> lanes;
  for (const TraceEvent& event : events) lanes.push_back(event.lane);
  return lanes;
}

TEST(StepTraceTest, HoldsAllThatFits_SortedByBegins) {
  StepTrace trace(3);
  EXPECT_THAT(trace.TakeSorted(1), IsEmpty());
  trace.Record(Event(1, 5, 6));
  trace.Record(Event(1, 2, 7));
  trace.Record(Event(2, 8, 9));
  EXPECT_EQ(trace.dropped(), 0);
  EXPECT_EQ(trace.first_whole_step(), 1);
  EXPECT_THAT(Begins(trace.TakeSorted(1)), ElementsAre(2, 5, 8));
}

TEST(StepTraceTest, DropsTheOldest_AndKnowsWhichStepsAreWhole) {
  StepTrace trace(3);
  for (int64_t i = 0; i < 8; ++i) trace.Record(Event(1 + i / 2, 10 * i, 10 * i + 5));
  EXPECT_EQ(trace.dropped(), 5);
  // Held: one event of step 3, both of step 4.
  EXPECT_EQ(trace.first_whole_step(), 4);
  EXPECT_THAT(Begins(trace.TakeSorted(4)), ElementsAre(60, 70));
  EXPECT_THAT(Begins(trace.TakeSorted(5)), IsEmpty());
}

TEST(StepTraceTest, LanesOfAKindDoNotOverlapAndAreUsedAgain) {
  EXPECT_THAT(Lanes({Event(1, 0, 10), Event(1, 5, 20), Event(1, 10, 12), Event(1, 12, 13)}),
              ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(Lanes({Event(1, 0, 10), Event(1, 0, 10, TraceKind::kGather), Event(1, 1, 2)}),
              ElementsAre(0, 0, 1));
  EXPECT_THAT(Lanes({Event(1, 0, 10, TraceKind::kForward), Event(1, 0, 4)}), ElementsAre(0, 0));
}

}  // namespace
}  // namespace rz
