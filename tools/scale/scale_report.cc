#include "tools/scale/scale_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/bench/json.h"
#include "tools/flag_set.h"

namespace rz {
namespace {

constexpr char kFormat[] = "ringzero scale";
constexpr int kVersion = 1;

std::string Rate(double bytes_a_second) {
  if (bytes_a_second == 0) return "no limit";
  return absl::StrFormat("%.4g GB/s", bytes_a_second / 1e9);
}

std::string NameOfSeries(const ScaleRow& row) {
  return absl::StrCat(std::string(NameOf(row.collective)), " ", std::string(NameOf(row.algorithm)));
}

// The two figures of a formula, as `format` writes a number; `none` where there is none.
std::string Formula(const ScaleRow& row, const char* separator, const char* none) {
  const auto difference = row.difference_percent();
  return absl::StrCat(row.formula ? absl::StrFormat("%.9g", *row.formula_us()) : none, separator,
                      difference ? absl::StrFormat("%.3f", *difference) : none);
}

}  // namespace

std::string DescribeLinks(const ScaleConfig& config) {
  const LinkOptions& links = config.links;
  std::vector<std::string> parts = {
      absl::StrCat("latency ", absl::FormatDuration(links.latency)),
      absl::StrCat("a rank ", Rate(links.rank_bandwidth)),
  };
  if (links.ranks_per_host > 1)
    parts.push_back(absl::StrCat(links.ranks_per_host, " ranks a host"));
  if (links.host_bandwidth > 0)
    parts.push_back(absl::StrCat("a host ", Rate(links.host_bandwidth)));
  if (links.local_latency) {
    parts.push_back(
        absl::StrCat("latency within a host ", absl::FormatDuration(*links.local_latency)));
  }
  if (links.local_bandwidth) {
    parts.push_back(absl::StrCat("a rank within a host ", Rate(*links.local_bandwidth)));
  }
  if (links.hosts_per_rack > 0)
    parts.push_back(absl::StrCat(links.hosts_per_rack, " hosts a rack"));
  if (links.rack_bandwidth > 0)
    parts.push_back(absl::StrCat("a rack ", Rate(links.rack_bandwidth)));
  if (config.reduce_bandwidth > 0) {
    parts.push_back(absl::StrCat("a rank adds ", Rate(config.reduce_bandwidth)));
  }
  return absl::StrJoin(parts, ", ");
}

std::string ScaleTableHead(const ScaleConfig& config) {
  return absl::StrCat(
      "# rz_scale version ", std::string(kToolsVersion),
      " (ringzero): simulated, nothing is sent\n", "# ", DescribeLinks(config), "\n", "# ",
      std::string(NameOf(config.dtype)), ", numeric ", std::string(NameOf(config.mode)),
      ", slices of ", config.slice_bytes, " bytes, ", config.lanes_in_flight, " in flight\n",
      "# bytes: sent by a rank, leaving a host, leaving a rack, of the one that sends most\n",
      absl::StrFormat("#%-14s %6s %12s %-12s %13s %13s %13s %13s %13s %7s\n", "operation", "ranks",
                      "size(B)", "algorithm", "time(us)", "rank(B)", "host(B)", "rack(B)",
                      "formula(us)", "diff(%)"));
}

std::string ScaleTableRow(const ScaleRow& row) {
  const auto difference = row.difference_percent();
  return absl::StrFormat("%-15s %6d %12d %-12s %13.2f %13d %13d %13d %13s %7s\n",
                         NameOf(row.collective), row.ranks, row.size_bytes, NameOf(row.algorithm),
                         row.time_us(), row.simulated.rank_bytes, row.simulated.host_bytes,
                         row.simulated.rack_bytes,
                         row.formula ? absl::StrFormat("%.2f", *row.formula_us()) : "-",
                         difference ? absl::StrFormat("%+.2f", *difference) : "-");
}

std::string ScaleCsv(const std::vector<ScaleRow>& rows) {
  std::string csv =
      "operation,ranks,size,algorithm,time_us,rank_bytes,host_bytes,rack_bytes,messages,formula_us,"
      "difference_pct\n";
  for (const ScaleRow& row : rows) {
    absl::StrAppend(&csv, std::string(NameOf(row.collective)), ",", row.ranks, ",", row.size_bytes,
                    ",", std::string(NameOf(row.algorithm)), ",",
                    absl::StrFormat("%.9g", row.time_us()), ",", row.simulated.rank_bytes, ",",
                    row.simulated.host_bytes, ",", row.simulated.rack_bytes, ",",
                    row.simulated.messages, ",", Formula(row, ",", ""), "\n");
  }
  return csv;
}

std::string ScaleJson(const ScaleConfig& config, const std::vector<ScaleRow>& rows) {
  std::vector<std::string> results;
  results.reserve(rows.size());
  for (const ScaleRow& row : rows) {
    results.push_back(absl::StrCat(
        "    {\"operation\": ", QuoteJson(NameOf(row.collective)), ", \"ranks\": ", row.ranks,
        ", \"size\": ", row.size_bytes, ", \"algorithm\": ", QuoteJson(NameOf(row.algorithm)),
        ", \"time_us\": ", absl::StrFormat("%.9g", row.time_us()), ", \"rank_bytes\": ",
        row.simulated.rank_bytes, ", \"host_bytes\": ", row.simulated.host_bytes,
        ", \"rack_bytes\": ", row.simulated.rack_bytes, ", \"messages\": ", row.simulated.messages,
        ", \"formula_us\": ", Formula(row, ", \"difference_pct\": ", "null"), "}"));
  }
  return absl::StrCat("{\n  \"format\": ", QuoteJson(kFormat), ",\n  \"version\": ", kVersion,
                      ",\n  \"links\": ", QuoteJson(DescribeLinks(config)),
                      ",\n  \"type\": ", QuoteJson(NameOf(config.dtype)),
                      ",\n  \"numeric\": ", QuoteJson(NameOf(config.mode)),
                      ",\n  \"slice_bytes\": ", config.slice_bytes,
                      ",\n  \"lanes_in_flight\": ", config.lanes_in_flight, ",\n  \"results\": [\n",
                      absl::StrJoin(results, ",\n"), "\n  ]\n}\n");
}

PlotPage ScalePage(const ScaleConfig& config, const std::vector<ScaleRow>& rows) {
  PlotPage page;
  page.title = "rz_scale: simulated times";
  page.notes = {DescribeLinks(config)};
  for (int ranks : config.ranks) {
    PlotChart chart{absl::StrCat(ranks, ranks == 1 ? " rank" : " ranks"), /*bus_factor=*/0, {}};
    for (const ScaleRow& row : rows) {
      if (row.ranks != ranks) continue;
      const std::string name = NameOfSeries(row);
      auto series = std::find_if(chart.series.begin(), chart.series.end(),
                                 [&](const PlotSeries& one) { return one.name == name; });
      if (series == chart.series.end()) {
        const PlotStyle style = chart.series.empty() ? PlotStyle::kOwn : PlotStyle::kPeer;
        series = chart.series.insert(series, {name, style, {}});
      }
      series->points.push_back({row.size_bytes, row.time_us()});
    }
    if (!chart.series.empty()) page.charts.push_back(std::move(chart));
  }
  return page;
}

}  // namespace rz
