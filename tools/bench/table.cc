#include "tools/bench/table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rz {
namespace {

constexpr size_t kTimeWidth = 7;
constexpr size_t kBandwidthWidth = 6;

std::string Time(double us) { return absl::StrFormat("  %7s", FormatNumber(us, kTimeWidth)); }

size_t HalfWidth(const TableColumns& columns) {
  return 9 + 3 * 8 + (columns.per_iteration ? 4 * 9 : 0) + (columns.percentiles ? 5 * 9 : 0);
}

std::string Centred(std::string_view text, size_t width) {
  const size_t left = (width - text.size()) / 2;
  return absl::StrCat(std::string(left, ' '), absl::string_view(text.data(), text.size()),
                      std::string(width - text.size() - left, ' '));
}

// The names above one half's columns, and their units.
std::string HalfNames(const TableColumns& columns) {
  return absl::StrCat(
      absl::StrFormat("  %7s  %6s  %6s  %6s", columns.cpu_time ? "cputime" : "time", "algbw",
                      "busbw", "#wrong"),
      columns.per_iteration
          ? absl::StrFormat("  %7s  %7s  %7s  %7s", "i_min", "i_max", "i_p99", "i_cv%")
          : "",
      columns.percentiles
          ? absl::StrFormat("  %7s  %7s  %7s  %7s  %7s", "min", "p50", "p90", "p99", "max")
          : "");
}

std::string HalfUnits(const TableColumns& columns) {
  return absl::StrCat(
      absl::StrFormat("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", ""),
      columns.per_iteration ? absl::StrFormat("  %7s  %7s  %7s  %7s", "(us)", "(us)", "(us)", "(%)")
                            : "",
      columns.percentiles
          ? absl::StrFormat("  %7s  %7s  %7s  %7s  %7s", "(us)", "(us)", "(us)", "(us)", "(us)")
          : "");
}

std::string Half(const std::optional<HalfResult>& half, const TableColumns& columns) {
  if (!half.has_value()) {
    std::string line = absl::StrFormat("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
    const int more = (columns.per_iteration ? 4 : 0) + (columns.percentiles ? 5 : 0);
    for (int i = 0; i < more; ++i) absl::StrAppend(&line, absl::StrFormat("  %7s", "N/A"));
    return line;
  }
  std::string line =
      absl::StrCat(Time(columns.cpu_time ? half->cpu_us : half->time_us),
                   absl::StrFormat("  %6s  %6s  %6s", FormatNumber(half->algbw, kBandwidthWidth),
                                   FormatNumber(half->busbw, kBandwidthWidth),
                                   half->wrong < 0 ? "N/A" : absl::StrCat(half->wrong)));
  const SampleStatistics& samples = half->samples_us;
  if (columns.per_iteration) {
    absl::StrAppend(&line, Time(samples.min), Time(samples.max), Time(samples.p99),
                    Time(samples.variation_percent));
  }
  if (columns.percentiles) {
    absl::StrAppend(&line, Time(samples.min), Time(samples.p50), Time(samples.p90),
                    Time(samples.p99), Time(samples.max));
  }
  return line;
}

}  // namespace

std::string FormatNumber(double value, size_t width) {
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = absl::StrFormat("%.*f", decimals, value);
    if (text.size() <= width) return text;
  }
  for (int decimals = 3; decimals > 0; --decimals) {
    std::string text = absl::StrFormat("%.*e", decimals, value);
    if (text.size() <= width) return text;
  }
  return absl::StrFormat("%.0e", value);
}

std::string_view TableName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
    case DType::kFloat16:
      return "half";
    case DType::kFloat8E4M3:
      return "f8e4m3";
    case DType::kFloat8E5M2:
      return "f8e5m2";
    default:
      return NameOf(dtype);
  }
}

std::string_view TableName(ReduceOp op) {
  return op == ReduceOp::kPremulSum ? "mulsum" : NameOf(op);
}

std::string TableHeader(const TableColumns& columns) {
  const size_t width = HalfWidth(columns);
  std::string names =
      absl::StrFormat("#%11s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
  std::string units =
      absl::StrFormat("#%11s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
  std::string halves = absl::StrCat("#", std::string(names.size() - 1, ' '),
                                    Centred("out-of-place", width), Centred("in-place", width));
  for (int half = 0; half < 2; ++half) {
    absl::StrAppend(&names, HalfNames(columns));
    absl::StrAppend(&units, HalfUnits(columns));
  }
  if (columns.limit) {
    absl::StrAppend(&names, absl::StrFormat("  %7s", "limit"));
    absl::StrAppend(&units, absl::StrFormat("  %7s", "(us)"));
  }
  if (columns.timestamps) absl::StrAppend(&names, absl::StrFormat("  %19s", "timestamp"));
  return absl::StrCat(halves, "\n", names, "\n", units);
}

std::string TableRow(const ResultRow& row, const TableColumns& columns) {
  const std::string_view op = row.op.has_value() ? TableName(*row.op) : "none";
  std::string line =
      absl::StrCat(absl::StrFormat("%12d  %12d  %8s  %6s  %6d", row.size_bytes, row.count,
                                   std::string(TableName(row.dtype)), std::string(op), row.root),
                   Half(row.out_of_place, columns), Half(row.in_place, columns));
  if (columns.limit) {
    absl::StrAppend(&line, row.limit_us ? Time(*row.limit_us) : absl::StrFormat("  %7s", "N/A"));
  }
  if (columns.timestamps) absl::StrAppend(&line, absl::StrFormat("  %19s", row.timestamp));
  return line;
}

std::string TableFooter(const ResultSummary& summary) {
  std::string bands;
  const auto add = [&](const char* band, const std::optional<double>& busbw) {
    if (busbw.has_value()) absl::StrAppend(&bands, "  ", band, absl::StrFormat(" %.4g", *busbw));
  };
  add("to 32 KiB", summary.small);
  add("to 1 MiB", summary.middle);
  add("above", summary.large);
  return absl::StrCat("# Out of bounds values : ", summary.wrong, " ",
                      summary.wrong == 0 ? "OK" : "FAILED", "\n",
                      absl::StrFormat("# Avg bus bandwidth    : %g\n", summary.average_busbw),
                      "# Bus bandwidth by size:", bands.empty() ? "  none" : bands);
}

}  // namespace rz
