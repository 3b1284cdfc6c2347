// A run of rz_train whose gradients are not finite.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/train_ranks.h"

namespace rz {
namespace {

using ::rz::testing::Arguments;
using ::rz::testing::Concat;
using ::rz::testing::Ending;
using ::rz::testing::TrainRanks;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Two ranks whose fp16 gradients overflow: a fixed scale is too large for good, a dynamic one comes
// down.
Ending TrainWithOverflow(const Arguments& more) {
  return TrainRanks(2, Concat({"--dataset=synthetic", "--model=20-24-5", "--global-batch=50",
                               "--dtype=fp16", "--steps=20"},
                              more));
}

TEST(TrainSkipTest, TenSkippedStepsInARowEndTheRun) {
  for (const char* stage : {"ddp", "1", "3"}) {
    SCOPED_TRACE(stage);
    const Ending run =
        TrainWithOverflow({"--loss-scale=4294967296", std::string("--stage=") + stage});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.out, AllOf(ContainsRegex("step 9 skipped: [0-9]+ elements of the mean gradient "
                                             "are not finite, the first in layer"),
                               Not(HasSubstr("step 10")), Not(HasSubstr("weights crc32c"))));
    EXPECT_THAT(run.err,
                ContainsRegex("rz_train: rank [01]: step 10: 10 steps in a row were skipped, after "
                              "0 steps taken; .* rank [01]'s gradient of layer.* is not finite"));
  }
}

TEST(TrainSkipTest, ADynamicScaleComesDownAndTrains) {
  const Ending run = TrainWithOverflow({});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("step 20 loss"), HasSubstr("weights crc32c")));
}

}  // namespace
}  // namespace rz
