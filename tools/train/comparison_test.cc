#include "tools/train/comparison.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

RunReport Report(ZeroStage stage, int64_t payload) {
  RunReport report;
  report.config.stage = stage;
  report.memory.shape.parameter_elements = 100;
  report.memory.shape.stage = stage;
  report.payload_bytes_per_step = payload;
  report.expected_payload_bytes_per_step = 600;
  report.breakdown.rows[kStepRow] = {.mean = 7, .min = 6, .max = 8, .max_rank = 1};
  report.weights_crc32c = 0xab;
  return report;
}

TEST(ComparisonTest, ShowsWhatEachStageSendsBesideItsFormulaAndDdp) {
  const std::vector<RunReport> reports = {Report(ZeroStage::kDdp, 400),
                                          Report(ZeroStage::kNaive, 600)};
  EXPECT_THAT(RenderComparison(reports),
              AllOf(ContainsRegex("\nddp +\\| +400 +600 +-200 +1.00 \\| 000000AB\n"),
                    ContainsRegex("\nnaive +\\| +600 +600 +0 +1.50 \\|"),
                    ContainsRegex("\nstep +\\| +7.000 +6.000 +8.000 \\(1\\) +\\| +7.000")));
}

TEST(ComparisonTest, WithoutATransportThereIsNoRatio) {
  const RunReport report = Report(ZeroStage::kDdp, 0);
  EXPECT_THAT(RenderComparison({&report, 1}), ContainsRegex("\nddp +\\| +0 +600 +-600 +- \\|"));
}

RunReport WithWeights(ZeroStage stage, int groups, uint32_t crc32c) {
  RunReport report = Report(stage, 0);
  report.memory.shape.groups = groups;
  report.weights_crc32c = crc32c;
  return report;
}

TEST(ComparisonTest, RunsWithEquallyManyGroupsHaveTheSameWeights) {
  std::vector<RunReport> reports = {
      WithWeights(ZeroStage::kDdp, 1, 7), WithWeights(ZeroStage::kNaive, 1, 7),
      WithWeights(ZeroStage::kOne, 2, 8), WithWeights(ZeroStage::kTwo, 2, 8)};
  EXPECT_OK(CheckSameWeights(reports));
  reports[3].weights_crc32c = 7;
  EXPECT_THAT(
      CheckSameWeights(reports),
      StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("stage 2 have the crc32c 00000007"),
                                                  HasSubstr("those of 1 00000008"))));
  reports[1].weights_crc32c = 9;
  EXPECT_THAT(CheckSameWeights(reports),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("stage naive")));
}

}  // namespace
}  // namespace rz
