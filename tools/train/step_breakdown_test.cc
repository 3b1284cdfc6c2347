#include "tools/train/step_breakdown.h"

#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

StepTimes Times(std::array<int, kStepPartCount> milliseconds, int hidden) {
  StepTimes times;
  for (size_t i = 0; i < kStepPartCount; ++i) times.parts[i] = absl::Milliseconds(milliseconds[i]);
  times.hidden = absl::Milliseconds(hidden);
  return times;
}

StepBreakdown OfTwoRanks() {
  return BreakDown({Times({10, 20, 30, 40, 0}, 4), Times({30, 20, 10, 20, 4}, 8)}, 10);
}

TEST(StepBreakdownTest, HasMeanLeastAndMostOfEachPartAStep) {
  const StepBreakdown breakdown = OfTwoRanks();
  EXPECT_EQ(breakdown.world, 2);
  EXPECT_EQ(breakdown.steps, 10);
  const TimeOverRanks& forward = breakdown.rows[0];
  EXPECT_DOUBLE_EQ(forward.mean, 2);
  EXPECT_DOUBLE_EQ(forward.min, 1);
  EXPECT_DOUBLE_EQ(forward.max, 3);
  EXPECT_EQ(forward.max_rank, 1);
  // The first of equals.
  EXPECT_EQ(breakdown.rows[static_cast<size_t>(StepPart::kBackward)].max_rank, 0);
  EXPECT_DOUBLE_EQ(breakdown.rows[kHiddenRow].mean, 0.6);
}

TEST(StepBreakdownTest, PartsAddUpToTheStep_HiddenIsNotAmongThem) {
  const StepBreakdown breakdown = OfTwoRanks();
  double sum = 0;
  for (size_t row = 0; row < kStepPartCount; ++row) sum += breakdown.rows[row].mean;
  EXPECT_DOUBLE_EQ(sum, breakdown.rows[kStepRow].mean);
  EXPECT_DOUBLE_EQ(breakdown.rows[kStepRow].max, 10);
}

TEST(StepBreakdownTest, TableHasEveryLabelSideBySide) {
  EXPECT_THAT(
      RenderBreakdowns({{"ddp", OfTwoRanks()}, {"zero-1", OfTwoRanks()}}),
      AllOf(HasSubstr("over 2 ranks"), ContainsRegex("\n +\\| ddp +\\| zero-1\n"),
            ContainsRegex("\nforward +\\| +2.000 +1.000 +3.000 \\(1\\) +\\| +2.000 .*\\(1\\)\n"),
            ContainsRegex("\nexposed communication \\| +2.000 +1.000 +3.000 \\(0\\)"),
            ContainsRegex("\nhidden communication +\\| +0.600 +0.400 +0.800 \\(1\\)")));
}

TEST(StepBreakdownTest, LineHasEveryPart) {
  EXPECT_THAT(DescribeBreakdown(OfTwoRanks()),
              AllOf(HasSubstr("forward 2.000 (most 3.000, rank 1), backward 2.000"),
                    HasSubstr("step 9.200 (most 10.000, rank 0), hidden communication 0.600")));
}

}  // namespace
}  // namespace rz
