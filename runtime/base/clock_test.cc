#include "runtime/base/clock.h"

#include "gtest/gtest.h"

namespace rz {
namespace {

TEST(ManualClockTest, StandsStillUntilAdvanced) {
  ManualClock clock;
  const absl::Duration start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Now() - start, absl::Seconds(3));
}

TEST(SteadyClockTest, NeverGoesBack) {
  const absl::Duration first = Clock::Steady()->Now();
  EXPECT_GE(Clock::Steady()->Now(), first);
}

TEST(DeadlineTest, PassesExactlyAtItsTime) {
  ManualClock clock;
  const Deadline deadline = Deadline::After(clock, absl::Seconds(2));
  clock.Advance(absl::Seconds(2) - absl::Nanoseconds(1));
  EXPECT_FALSE(deadline.HasPassed(clock));
  EXPECT_EQ(deadline.Remaining(clock), absl::Nanoseconds(1));
  clock.Advance(absl::Nanoseconds(1));
  EXPECT_TRUE(deadline.HasPassed(clock));
}

TEST(DeadlineTest, InfiniteFutureNeverPasses) {
  ManualClock clock;
  clock.Advance(absl::Hours(100000));
  EXPECT_FALSE(Deadline::InfiniteFuture().HasPassed(clock));
}

}  // namespace
}  // namespace rz
