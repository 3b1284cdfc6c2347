#include "tools/train/comparison.h"

#include <vector>

#include "gmock/gmock.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;

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

}  // namespace
}  // namespace rz
