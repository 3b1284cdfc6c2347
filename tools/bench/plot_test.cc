#include "tools/bench/plot.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/bench/plot_axis.h"

namespace rz {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> LabelsOf(const std::vector<Tick>& ticks) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  return labels;
}

TEST(LogAxisTest, SpansThePositiveValues) {
  const double values[] = {100, 0, 1, -3, HUGE_VAL};
  const LogAxis axis(values);
  EXPECT_LT(axis.low(), 1);
  EXPECT_GT(axis.high(), 100);
  EXPECT_NEAR(axis.Position(10), 0.5, 1e-9);
  EXPECT_EQ(axis.Position(axis.low()), 0);
  EXPECT_EQ(axis.Position(axis.high()), 1);
}

TEST(LogAxisTest, NothingAndOneValueStillMakeAnAxis) {
  EXPECT_GT(LogAxis({}).high(), LogAxis({}).low());
  const double one[] = {5};
  EXPECT_GT(LogAxis(one).high(), LogAxis(one).low());
}

TEST(LogAxisTest, TicksAreRoundAndFew) {
  EXPECT_THAT(LabelsOf(LogAxis(0.9, 60).DecimalTicks()),
              ElementsAre("1", "2", "5", "10", "20", "50"));
  EXPECT_THAT(LabelsOf(LogAxis(0.09, 1e6).DecimalTicks()),
              ElementsAre("0.1", "1", "10", "100", "1k", "10k", "100k", "1M"));
  EXPECT_THAT(LabelsOf(LogAxis(6, 300 << 20).SizeTicks()),
              ElementsAre("8 B", "64 B", "512 B", "4 KiB", "32 KiB", "256 KiB", "2 MiB", "16 MiB",
                          "128 MiB"));
  EXPECT_LE(LogAxis(1, 1e18).SizeTicks().size(), 11);
}

TEST(LogAxisTest, LabelsAreShort) {
  EXPECT_EQ(SizeLabel(1536), "1.5 KiB");
  EXPECT_EQ(SizeLabel(7), "7 B");
  EXPECT_EQ(NumberLabel(0.05), "0.05");
  EXPECT_EQ(NumberLabel(20000), "20k");
}

PlotPage SomePage() {
  PlotPage page;
  page.title = "a <title> & \"more\"";
  page.notes = {"it's <b>"};
  PlotChart chart;
  chart.title = "all_reduce";
  chart.bus_factor = 1.5;
  chart.series = {{"ringzero", PlotStyle::kOwn, {{0, 3}, {8, 1}, {1024, 2}, {1 << 20, 100}}},
                  {"other <x>", PlotStyle::kPeer, {{8, 2}, {1024, 4}}},
                  {"other default", PlotStyle::kPeerDefault, {{8, 3}}},
                  {"limit", PlotStyle::kLimit, {}}};
  page.charts.push_back(chart);
  return page;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PlotTest, TextIsEscaped) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  const std::string html = RenderPlot(SomePage());
  EXPECT_THAT(html, AllOf(HasSubstr("<title>a &lt;title&gt; &amp; &quot;more&quot;</title>"),
                          HasSubstr("<p>it&#39;s &lt;b&gt;</p>"), HasSubstr("other &lt;x&gt;"),
                          Not(HasSubstr("<x>"))));
}

TEST(PlotTest, FigureIsOnePictureOfAllCharts) {
  PlotPage page = SomePage();
  page.charts.push_back(page.charts[0]);
  page.charts[1].title = "all_gather";
  const std::string svg = RenderFigure(page);
  EXPECT_EQ(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0), 0u);
  EXPECT_EQ(Count(svg, "<svg"), Count(svg, "</svg>"));
  EXPECT_THAT(svg, AllOf(HasSubstr(">all_reduce</text>"), HasSubstr(">all_gather</text>"),
                         HasSubstr("other &lt;x&gt;</text>"), HasSubstr("translate(600 0)")));
  EXPECT_EQ(Count(svg, ">ringzero</text>"), 1) << "one legend for all";
}

TEST(PlotTest, ThePageNeedsNothingElse) {
  const std::string html = RenderPlot(SomePage());
  EXPECT_THAT(html, AllOf(Not(HasSubstr("http")), Not(HasSubstr("<script")),
                          Not(HasSubstr("<link")), Not(HasSubstr("url("))));
}

TEST(PlotTest, EverySeriesHasItsCurveInBothPanelsAndItsLegend) {
  const std::string html = RenderPlot(SomePage());
  EXPECT_EQ(Count(html, "role=\"img\""), 2);
  // Three points of ringzero, two and one of the others; the limit has none.
  EXPECT_EQ(Count(html, "ringzero, "), 2 * 3);
  EXPECT_EQ(Count(html, "other &lt;x&gt;, "), 2 * 2);
  EXPECT_EQ(Count(html, ">limit</span>"), 1);
  EXPECT_EQ(Count(html, "<svg"), Count(html, "</svg>"));
  EXPECT_EQ(Count(html, "<title>"), Count(html, "</title>"));
  EXPECT_THAT(html, AllOf(HasSubstr("busbw GB/s"), HasSubstr("algbw GB/s"), Not(HasSubstr("nan")),
                          Not(HasSubstr("inf"))));
}

TEST(PlotTest, AnEmptyChartIsDrawnWithoutCurves) {
  PlotPage page;
  page.charts.push_back({"barrier", 0, {{"out of place", PlotStyle::kOwn, {{0, 5}}}}});
  const std::string html = RenderPlot(page);
  EXPECT_THAT(html, AllOf(Not(HasSubstr("busbw")), Not(HasSubstr("nan"))));
}

TEST(PlotTest, ATableBecomesAChartForEachKind) {
  std::vector<ResultRow> rows(3);
  rows[0].size_bytes = 8;
  rows[0].op = ReduceOp::kSum;
  rows[0].out_of_place = HalfResult{.time_us = 1};
  rows[0].in_place = HalfResult{.time_us = 2};
  rows[0].limit_us = 0.5;
  rows[1] = rows[0];
  rows[1].size_bytes = kLimitDrawnFrom;
  rows[2].operation = BenchOperation::kBroadcast;
  rows[2].size_bytes = 8;
  rows[2].root = 1;
  rows[2].in_place = HalfResult{.time_us = 3};
  RunDescription run;
  run.world = 2;
  const PlotPage page = PageOf(run, rows);
  ASSERT_THAT(page.charts, SizeIs(2));
  EXPECT_EQ(page.charts[0].title, "all_reduce, float32 sum");
  ASSERT_THAT(page.charts[0].series, SizeIs(3));
  EXPECT_THAT(page.charts[0].series[0].points, SizeIs(2));
  EXPECT_THAT(page.charts[0].series[2].points, SizeIs(1));
  EXPECT_EQ(page.charts[1].title, "broadcast, float32, root 1");
  EXPECT_EQ(page.charts[1].series[0].points[0].time_us, 3);
}

}  // namespace
}  // namespace rz
