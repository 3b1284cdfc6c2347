// Results as a picture: one HTML page that needs nothing else, with inline SVG. Pure.
//
// Each chart has two panels over the message size, all axes logarithmic: bandwidth, read as algbw
// at the left and as busbw at the right (one is a multiple of the other, so one curve serves both),
// and time.
#ifndef RINGZERO_TOOLS_BENCH_PLOT_H_
#define RINGZERO_TOOLS_BENCH_PLOT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/results.h"

namespace rz {

enum class PlotStyle : uint8_t {
  kOwn,          // ringzero with separate buffers, or the only placement
  kOwnInPlace,   // likewise in place
  kOwnBeside,    // ringzero in another way
  kPeer,         // colours in turn
  kPeerDefault,  // dotted, in the colour of the peer before it
  kLimit,
};

// Below, a call is about messages, not bytes: the limit of the bytes says nothing.
inline constexpr int64_t kLimitDrawnFrom = int64_t{32} << 10;

struct PlotPoint {
  int64_t size_bytes = 0;  // those of 0 are left out
  double time_us = 0;
};

struct PlotSeries {
  std::string name;
  PlotStyle style = PlotStyle::kOwn;
  std::vector<PlotPoint> points;  // in order of size
};

struct PlotChart {
  std::string title;
  double bus_factor = 1;  // 0: no busbw
  std::vector<PlotSeries> series;
};

struct PlotPage {
  std::string title;
  std::vector<std::string> notes;  // lines below it
  std::vector<PlotChart> charts;
};

std::string RenderPlot(const PlotPage& page);

// The same as one SVG file for a document: the charts' panels of time side by side, one legend for
// all, which is that of the first chart.
std::string RenderFigure(const PlotPage& page);

// `text` as it stands in HTML.
std::string EscapeHtml(std::string_view text);

// A chart for each operation, dtype, op and root of a table.
PlotPage PageOf(const RunDescription& run, const std::vector<ResultRow>& rows);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_PLOT_H_
