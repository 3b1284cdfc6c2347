#include "tools/bench/plot.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tools/bench/plot_axis.h"

namespace rz {
namespace {

// Of a panel, in pixels.
constexpr double kWidth = 600, kHeight = 380;
constexpr double kLeft = 62, kRight = 62, kTop = 46, kBottom = 50;

// Colours that people with any colour vision tell apart (Okabe and Ito, 2008).
constexpr const char* kOwnColour = "#0072b2";
constexpr const char* kPeerColours[] = {"#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
constexpr const char* kLimitColour = "#444444";

constexpr const char* kPageHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff; margin: 24px auto; max-width: 1260px; padding: 0 16px; }
h1 { font-size: 22px; margin: 0 0 4px; }
h2 { font-size: 17px; margin: 28px 0 2px; }
p { margin: 0; color: #555; font-size: 13px; overflow-wrap: anywhere; }
.panels { display: flex; flex-wrap: wrap; gap: 12px; }
.panels svg { flex: 1 1 480px; max-width: 100%%; height: auto; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 6px 0 2px; font-size: 14px; }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
svg text { font: 12px system-ui, sans-serif; fill: #444; }
svg .name { font-size: 13px; font-weight: 600; fill: #222; }
</style>
</head>
<body>
<h1>%s</h1>
)";

struct Look {
  std::string colour;
  std::string dash;  // stroke-dasharray; "": a whole line
  int marker = 0;    // 0 circle, 1 square, 2 triangle, 3 none
  double width = 2;
};

std::vector<Look> LooksOf(const PlotChart& chart) {
  std::vector<Look> looks;
  size_t peer = 0;
  for (const PlotSeries& series : chart.series) {
    const char* const next = kPeerColours[peer % std::size(kPeerColours)];
    const char* const last =
        kPeerColours[(peer + std::size(kPeerColours) - 1) % std::size(kPeerColours)];
    switch (series.style) {
      case PlotStyle::kOwn:
        looks.push_back({kOwnColour, "", 0, 2.8});
        break;
      case PlotStyle::kOwnInPlace:
        looks.push_back({kOwnColour, "7 4", 1, 2});
        break;
      case PlotStyle::kOwnBeside:
        looks.push_back({kOwnColour, "7 4", 1, 2});
        break;
      case PlotStyle::kPeer:
        looks.push_back({next, "", 2, 1.8});
        ++peer;
        break;
      case PlotStyle::kPeerDefault:
        looks.push_back({last, "2 4", 3, 1.6});
        break;
      case PlotStyle::kLimit:
        looks.push_back({kLimitColour, "10 3 2 3", 3, 1.8});
        break;
    }
  }
  return looks;
}

std::string LineStyle(const Look& look) {
  return absl::StrFormat(
      "fill=\"none\" stroke=\"%s\" stroke-width=\"%g\"%s", look.colour, look.width,
      look.dash.empty() ? "" : absl::StrFormat(" stroke-dasharray=\"%s\"", look.dash));
}

std::string Marker(const Look& look, double x, double y) {
  switch (look.marker) {
    case 0:
      return absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.4\" fill=\"%s\">", x, y,
                             look.colour);
    case 1:
      return absl::StrFormat(
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"6\" height=\"6\" fill=\"#fff\" stroke=\"%s\" "
          "stroke-width=\"1.6\">",
          x - 3, y - 3, look.colour);
    case 2:
      return absl::StrFormat("<path d=\"M%.1f %.1fl3.6 6.4h-7.2z\" fill=\"%s\">", x, y - 4,
                             look.colour);
    default:
      return absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"transparent\">", x, y);
  }
}

const char* MarkerEnd(const Look& look) {
  return look.marker == 1 ? "</rect>" : look.marker == 2 ? "</path>" : "</circle>";
}

double Algbw(const PlotPoint& point) {
  return static_cast<double>(point.size_bytes) / point.time_us * 1e-3;
}

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const char* more = "") {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y,
                         anchor, more, EscapeHtml(text));
}

using Value = std::function<double(const PlotPoint&)>;

// One panel: a frame with axes, and the curves in it.
class Panel {
 public:
  Panel(const PlotChart& chart, const Value& value, const char* name)
      : chart_(chart), value_(value), name_(name), x_(Sizes(chart)), y_(Values(chart, value)) {}

  std::string Render(const std::vector<Look>& looks, const char* left_unit,
                     const char* right_unit) const {
    std::string svg = absl::StrFormat(
        "<svg viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" role=\"img\" aria-label=\"%s\">\n",
        kWidth, kHeight, kWidth, kHeight, EscapeHtml(absl::StrCat(chart_.title, ": ", name_)));
    absl::StrAppend(&svg, Text(kWidth / 2, 16, "middle", name_, " class=\"name\""), SizeAxis());
    absl::StrAppend(&svg, LeftAxis(left_unit));
    if (right_unit != nullptr) absl::StrAppend(&svg, RightAxis(right_unit));
    // What is measured for comparison stands below what it is compared with.
    for (size_t i = chart_.series.size(); i-- > 0;) {
      absl::StrAppend(&svg, Curve(chart_.series[i], looks[i]));
    }
    return absl::StrCat(svg, "</svg>\n");
  }

 private:
  static LogAxis Sizes(const PlotChart& chart) {
    std::vector<double> sizes;
    for (const PlotSeries& series : chart.series) {
      for (const PlotPoint& point : series.points) {
        sizes.push_back(static_cast<double>(point.size_bytes));
      }
    }
    return LogAxis(sizes);
  }

  static LogAxis Values(const PlotChart& chart, const Value& value) {
    std::vector<double> values;
    for (const PlotSeries& series : chart.series) {
      for (const PlotPoint& point : series.points) {
        if (point.size_bytes > 0) values.push_back(value(point));
      }
    }
    return LogAxis(values);
  }

  double X(double size) const { return kLeft + x_.Position(size) * (kWidth - kLeft - kRight); }
  double Y(double value) const {
    return kHeight - kBottom - y_.Position(value) * (kHeight - kTop - kBottom);
  }

  static std::string Line(double x1, double y1, double x2, double y2, const char* colour) {
    return absl::StrFormat(
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2,
        colour);
  }

  std::string SizeAxis() const {
    std::string svg;
    for (const Tick& tick : x_.SizeTicks()) {
      const double x = X(tick.value);
      absl::StrAppend(&svg, Line(x, kTop, x, kHeight - kBottom, "#e8e8e8"),
                      Text(x, kHeight - kBottom + 18, "middle", tick.label));
    }
    return absl::StrCat(svg, Text((kLeft + kWidth - kRight) / 2, kHeight - 10, "middle",
                                  "size of the larger buffer"));
  }

  std::string LeftAxis(const char* unit) const {
    std::string svg;
    for (const Tick& tick : y_.DecimalTicks()) {
      const double y = Y(tick.value);
      absl::StrAppend(
          &svg, Line(kLeft, y, kWidth - kRight, y, tick.label.empty() ? "#f3f3f3" : "#e0e0e0"));
      if (!tick.label.empty()) {
        absl::StrAppend(&svg, Text(kLeft - 6, y + 4, "end", tick.label));
      }
    }
    absl::StrAppend(&svg, Line(kLeft, kTop, kLeft, kHeight - kBottom, "#999"),
                    Line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "#999"));
    return absl::StrCat(svg, Text(4, kTop - 10, "start", unit));
  }

  // The left axis times the bus factor: the same height is another number.
  std::string RightAxis(const char* unit) const {
    std::string svg;
    for (const Tick& tick : y_.Scaled(chart_.bus_factor).DecimalTicks()) {
      if (tick.label.empty()) continue;
      const double y = Y(tick.value / chart_.bus_factor);
      absl::StrAppend(&svg, Line(kWidth - kRight, y, kWidth - kRight + 4, y, "#999"),
                      Text(kWidth - kRight + 8, y + 4, "start", tick.label));
    }
    absl::StrAppend(&svg, Line(kWidth - kRight, kTop, kWidth - kRight, kHeight - kBottom, "#999"));
    return absl::StrCat(svg, Text(kWidth - 4, kTop - 10, "end", unit));
  }

  std::string Curve(const PlotSeries& series, const Look& look) const {
    std::string path, markers;
    for (const PlotPoint& point : series.points) {
      if (point.size_bytes <= 0 || !(point.time_us > 0)) continue;
      const double x = X(static_cast<double>(point.size_bytes)), y = Y(value_(point));
      absl::StrAppend(&path, path.empty() ? "M" : "L", absl::StrFormat("%.1f %.1f", x, y));
      absl::StrAppend(&markers, Marker(look, x, y), "<title>",
                      EscapeHtml(absl::StrFormat(
                          "%s, %s: %.2f us, %.3g GB/s (bus %.3g GB/s)", series.name,
                          SizeLabel(static_cast<double>(point.size_bytes)), point.time_us,
                          Algbw(point), Algbw(point) * chart_.bus_factor)),
                      "</title>", MarkerEnd(look), "\n");
    }
    if (path.empty()) return "";
    return absl::StrCat("<path d=\"", path, "\" ", LineStyle(look), "/>\n", markers);
  }

  const PlotChart& chart_;
  const Value& value_;
  const char* name_;
  const LogAxis x_;
  const LogAxis y_;
};

std::string Legend(const PlotChart& chart, const std::vector<Look>& looks) {
  std::string html = "<div class=\"legend\">\n";
  for (size_t i = 0; i < chart.series.size(); ++i) {
    absl::StrAppend(
        &html, "<span><svg width=\"36\" height=\"12\"><path d=\"M1 6H35\" ", LineStyle(looks[i]),
        "/>",
        looks[i].marker == 3 ? "" : absl::StrCat(Marker(looks[i], 18, 6), MarkerEnd(looks[i])),
        "</svg>", EscapeHtml(chart.series[i].name), "</span>\n");
  }
  return absl::StrCat(html, "</div>\n");
}

std::string RenderChart(const PlotChart& chart) {
  const std::vector<Look> looks = LooksOf(chart);
  const Value bandwidth = Algbw;
  const Value time = [](const PlotPoint& point) { return point.time_us; };
  const Panel bandwidth_panel(chart, bandwidth, "Bandwidth (higher is better)");
  const Panel time_panel(chart, time, "Time of a call (lower is better)");
  return absl::StrCat(
      "<h2>", EscapeHtml(chart.title), "</h2>\n", Legend(chart, looks), "<div class=\"panels\">\n",
      bandwidth_panel.Render(looks, "algbw GB/s", chart.bus_factor > 0 ? "busbw GB/s" : nullptr),
      time_panel.Render(looks, "us", nullptr), "</div>\n");
}

// Entries in a row, so wide that names of twenty letters fit.
constexpr double kEntryWidth = 200, kEntryHeight = 20;

size_t EntriesInRow(double width) { return static_cast<size_t>(width / kEntryWidth); }

std::string FigureLegend(const PlotChart& chart, double width, double top) {
  const std::vector<Look> looks = LooksOf(chart);
  std::string svg;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const double x = 12 + static_cast<double>(i % EntriesInRow(width)) * kEntryWidth;
    const double y = top + static_cast<double>(i / EntriesInRow(width)) * kEntryHeight;
    absl::StrAppend(
        &svg, absl::StrFormat("<path d=\"M%g %gh34\" ", x, y), LineStyle(looks[i]), "/>",
        looks[i].marker == 3 ? "" : absl::StrCat(Marker(looks[i], x + 17, y), MarkerEnd(looks[i])),
        Text(x + 40, y + 4, "start", chart.series[i].name));
  }
  return svg;
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  return absl::StrReplaceAll(
      absl::string_view(text.data(), text.size()),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string RenderPlot(const PlotPage& page) {
  const std::string title = EscapeHtml(page.title);
  std::string html = absl::StrFormat(kPageHead, title, title);
  for (const std::string& note : page.notes) {
    absl::StrAppend(&html, "<p>", EscapeHtml(note), "</p>\n");
  }
  for (const PlotChart& chart : page.charts) absl::StrAppend(&html, RenderChart(chart));
  return absl::StrCat(html, "</body>\n</html>\n");
}

std::string RenderFigure(const PlotPage& page) {
  if (page.charts.empty()) return "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n";
  const double width = kWidth * static_cast<double>(page.charts.size());
  const size_t rows = page.charts[0].series.size() / EntriesInRow(width) + 1;
  const double height = kHeight + 10 + kEntryHeight * static_cast<double>(rows);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
      "height=\"%g\">\n<title>%s</title>\n<style>text { font: 12px sans-serif; fill: #444; } "
      ".name { font-weight: 600; fill: #222; }</style>\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
      width, height, width, height, EscapeHtml(page.title));
  const Value time = [](const PlotPoint& point) { return point.time_us; };
  double left = 0;
  for (const PlotChart& chart : page.charts) {
    const Panel panel(chart, time, chart.title.c_str());
    absl::StrAppend(&svg, absl::StrFormat("<g transform=\"translate(%g 0)\">\n", left),
                    panel.Render(LooksOf(chart), "us", nullptr), "</g>\n");
    left += kWidth;
  }
  return absl::StrCat(svg, FigureLegend(page.charts[0], width, kHeight + 10), "</svg>\n");
}

PlotPage PageOf(const RunDescription& run, const std::vector<ResultRow>& rows) {
  PlotPage page;
  page.title = absl::StrCat("rz_bench: ", run.world, run.world == 1 ? " rank" : " ranks");
  page.notes = {absl::StrCat(run.start_time, ", transport ", run.transport, ", numeric ",
                             run.numeric, run.algorithm.empty() ? "" : ", ", run.algorithm)};
  std::string last_title;
  for (const ResultRow& row : rows) {
    const std::string title =
        absl::StrCat(std::string(NameOf(row.operation)), ", ", std::string(NameOf(row.dtype)),
                     row.op ? absl::StrCat(" ", std::string(NameOf(*row.op))) : "",
                     row.root < 0 ? "" : absl::StrCat(", root ", row.root));
    if (title != last_title) {
      last_title = title;
      page.charts.push_back({title, BusFactor(row.operation, run.world), {}});
      const OperationTraits& traits = TraitsOf(row.operation);
      std::vector<PlotSeries>& series = page.charts.back().series;
      if (traits.out_of_place) series.push_back({"out of place", PlotStyle::kOwn, {}});
      if (traits.in_place) series.push_back({"in place", PlotStyle::kOwnInPlace, {}});
      if (row.limit_us) series.push_back({"limit", PlotStyle::kLimit, {}});
    }
    for (PlotSeries& series : page.charts.back().series) {
      const std::optional<HalfResult>& half =
          series.style == PlotStyle::kOwn ? row.out_of_place : row.in_place;
      if (series.style == PlotStyle::kLimit) {
        if (row.limit_us && row.size_bytes >= kLimitDrawnFrom)
          series.points.push_back({row.size_bytes, *row.limit_us});
      } else if (half.has_value()) {
        series.points.push_back({row.size_bytes, half->time_us});
      }
    }
  }
  return page;
}

}  // namespace rz
