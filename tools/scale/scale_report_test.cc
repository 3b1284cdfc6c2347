#include "tools/scale/scale_report.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tools/bench/json.h"
#include "tools/scale/scale_sweep.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

ScaleConfig SmallConfig() {
  ScaleConfig config;
  config.collectives = {Collective::kReduceScatter, Collective::kAllReduce};
  config.ranks = {4, 8};
  config.sizes = {1024, 64 << 20};
  config.algorithms = {Algorithm::kRing, Algorithm::kHalving};
  config.links.ranks_per_host = 2;
  return config;
}

struct Heard {
  std::vector<std::string> rows, skipped;
};

std::vector<ScaleRow> RunSmall(const ScaleConfig& config, Heard& heard) {
  const ScaleListener listener = {
      .on_row = [&](const ScaleRow& row) { heard.rows.push_back(ScaleTableRow(row)); },
      .on_skipped = [&](const std::string& line) { heard.skipped.push_back(line); },
      .on_progress = [](const std::string&, int64_t, int64_t) {}};
  const absl::StatusOr<std::vector<ScaleRow>> rows = RunSweep(config, listener);
  EXPECT_OK(rows.status());
  return rows.value_or(std::vector<ScaleRow>{});
}

std::vector<std::string> Fields(const std::string& line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \n"), absl::SkipEmpty());
}

TEST(ScaleSweepTest, EveryCallThatCanBeIsARow) {
  Heard heard;
  const std::vector<ScaleRow> rows = RunSmall(SmallConfig(), heard);
  ASSERT_THAT(rows, SizeIs(14));
  EXPECT_THAT(heard.rows, SizeIs(14));
  EXPECT_THAT(heard.skipped,
              ElementsAre(AllOf(HasSubstr("all_reduce of 64 MiB by halving on 4 ranks: left out"),
                                HasSubstr("cannot be cut into slices")),
                          HasSubstr("by halving on 8 ranks")));
  // 3 hops of 5 us and 256 B at 25 GB/s; two ranks a host.
  EXPECT_THAT(Fields(heard.rows[0]), ElementsAre("reduce_scatter", "4", "1024", "ring", "15.03",
                                                 "768", "768", "0", "15.03", "+0.00"));
}

TEST(ScaleSweepTest, StagesAreSimulatedWhereRanksShareHosts) {
  ScaleConfig config = SmallConfig();
  config.collectives = {Collective::kAllReduce, Collective::kAllToAll};
  config.ranks = {2, 8};
  config.sizes = {1 << 20};
  config.algorithms = {Algorithm::kHierarchical};
  config.links.host_bandwidth = 50e9;
  Heard heard;
  const std::vector<ScaleRow> rows = RunSmall(config, heard);
  ASSERT_THAT(rows, SizeIs(1)) << "an all_to_all has no stages";
  EXPECT_EQ(rows[0].simulated.host_bytes, 2 * 3 * (1 << 20) / 4);
  EXPECT_THAT(heard.skipped,
              ElementsAre(HasSubstr("all ranks are on one host"),
                          AllOf(HasSubstr("all_to_all: left out: it has no algorithm of "),
                                HasSubstr("it has pairwise"))));
}

TEST(ScaleSweepTest, CallsThatWouldNotFitAreLeftOut) {
  ScaleConfig config = SmallConfig();
  config.collectives = {Collective::kAllReduce};
  config.ranks = {257};
  config.sizes = {4096};
  config.algorithms = {Algorithm::kBruck};
  Heard heard;
  EXPECT_THAT(RunSmall(config, heard), SizeIs(0));
  EXPECT_THAT(heard.skipped, ElementsAre(HasSubstr("256 at most")));
  config.ranks = {65536};
  config.algorithms = {Algorithm::kChain};
  config.collectives = {Collective::kBroadcast};
  config.sizes = {int64_t{1} << 33};
  EXPECT_THAT(RunSmall(config, heard), SizeIs(0));
  EXPECT_THAT(heard.skipped.back(), HasSubstr("messages are too many to step"));
}

TEST(ScaleSweepTest, AWorldOfOneTakesNoTime) {
  ScaleConfig config = SmallConfig();
  config.ranks = {1};
  Heard heard;
  const std::vector<ScaleRow> rows = RunSmall(config, heard);
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows[0].simulated.time, 0);
  EXPECT_FALSE(rows[0].difference_percent().has_value());
}

TEST(ScaleReportTest, HeadSaysWhatWasSimulated) {
  ScaleConfig config = SmallConfig();
  config.links.host_bandwidth = 50e9;
  config.reduce_bandwidth = 20e9;
  EXPECT_THAT(ScaleTableHead(config),
              AllOf(HasSubstr("latency 5us, a rank 25 GB/s, 2 ranks a host, a host 50 GB/s"),
                    HasSubstr("a rank adds 20 GB/s"), HasSubstr("slices of 262144 bytes"),
                    HasSubstr("simulated, nothing is sent")));
}

TEST(ScaleReportTest, FilesHoldTheRows) {
  const ScaleConfig config = SmallConfig();
  Heard heard;
  const std::vector<ScaleRow> rows = RunSmall(config, heard);
  const std::vector<std::string> csv = absl::StrSplit(ScaleCsv(rows), '\n', absl::SkipEmpty());
  ASSERT_THAT(csv, SizeIs(15));
  EXPECT_EQ(csv[1], "reduce_scatter,4,1024,ring,15.03072,768,768,0,12,15.03072,0.000");
  ASSERT_OK_AND_ASSIGN(const JsonScalars json, ReadJson(ScaleJson(config, rows)));
  EXPECT_EQ(json.at("format"), "ringzero scale");
  EXPECT_EQ(json.at("version"), "1");
  EXPECT_EQ(json.at("results.13.operation"), "all_reduce");
  EXPECT_EQ(json.at("results.0.rank_bytes"), "768");
  EXPECT_THAT(json.at("results.0.time_us"), HasSubstr("15.03"));
}

TEST(ScaleReportTest, PageHasAChartForEachWorld) {
  const ScaleConfig config = SmallConfig();
  Heard heard;
  const PlotPage page = ScalePage(config, RunSmall(config, heard));
  ASSERT_THAT(page.charts, SizeIs(2));
  EXPECT_EQ(page.charts[0].title, "4 ranks");
  ASSERT_THAT(page.charts[0].series, SizeIs(4));
  EXPECT_EQ(page.charts[0].series[0].name, "reduce_scatter ring");
  EXPECT_THAT(page.charts[0].series[0].points, SizeIs(2));
  EXPECT_THAT(page.charts[0].series[3].points, SizeIs(1)) << "one was left out";
}

}  // namespace
}  // namespace rz
