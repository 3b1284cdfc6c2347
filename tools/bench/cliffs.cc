#include "tools/bench/cliffs.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/table.h"

namespace rz {
namespace {

using Half = std::optional<HalfResult> ResultRow::*;

double TimeOf(const HalfResult& half) {
  return half.samples_us.p50 > 0 ? half.samples_us.p50 : half.time_us;
}

bool DifferInSizeAlone(const ResultRow& a, const ResultRow& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.op == b.op && a.root == b.root &&
         a.size_bytes < b.size_bytes;
}

// What the line through both neighbours says at the middle row.
double Expected(const ResultRow& left, const ResultRow& middle, const ResultRow& right, Half half) {
  const double x0 = std::log(static_cast<double>(left.size_bytes));
  const double x1 = std::log(static_cast<double>(right.size_bytes));
  const double x = std::log(static_cast<double>(middle.size_bytes));
  const double y0 = std::log(TimeOf(*(left.*half)));
  const double y1 = std::log(TimeOf(*(right.*half)));
  return std::exp(y0 + (y1 - y0) * (x - x0) / (x1 - x0));
}

}  // namespace

std::vector<Cliff> FindCliffs(const std::vector<ResultRow>& rows, double factor) {
  std::vector<Cliff> cliffs;
  for (size_t i = 1; i + 1 < rows.size(); ++i) {
    const ResultRow* const around[] = {&rows[i - 1], &rows[i], &rows[i + 1]};
    if (around[0]->size_bytes <= 0 || !DifferInSizeAlone(*around[0], *around[1]) ||
        !DifferInSizeAlone(*around[1], *around[2])) {
      continue;
    }
    for (const Half half : {&ResultRow::out_of_place, &ResultRow::in_place}) {
      const bool measured = std::all_of(std::begin(around), std::end(around), [&](const auto* row) {
        return (row->*half).has_value() && TimeOf(*(row->*half)) > 0;
      });
      if (!measured) continue;
      const double expected = Expected(*around[0], *around[1], *around[2], half);
      const double time = TimeOf(*(around[1]->*half));
      if (time > factor * expected) {
        cliffs.push_back(
            {around[1], half == &ResultRow::in_place, time, expected, time / expected});
      }
    }
  }
  std::stable_sort(cliffs.begin(), cliffs.end(),
                   [](const Cliff& a, const Cliff& b) { return a.ratio > b.ratio; });
  return cliffs;
}

void TakeFaster(ResultRow& row, const ResultRow& again) {
  for (const Half half : {&ResultRow::out_of_place, &ResultRow::in_place}) {
    if ((row.*half).has_value() && (again.*half).has_value() &&
        TimeOf(*(again.*half)) < TimeOf(*(row.*half))) {
      row.*half = again.*half;
    }
  }
}

std::string CliffsText(const std::vector<Cliff>& cliffs, double factor) {
  std::string text = absl::StrCat(
      "# Cliffs (above ", factor,
      " times the trend of their neighbours, measured again):", cliffs.empty() ? " none" : "");
  for (const Cliff& cliff : cliffs) {
    absl::StrAppend(&text, "\n#", absl::StrFormat("%13d B ", cliff.row->size_bytes),
                    cliff.in_place ? "in place" : "out of place", ": ",
                    FormatNumber(cliff.time_us, 7), " us, ", FormatNumber(cliff.ratio, 5),
                    " times the expected ", FormatNumber(cliff.expected_us, 7));
  }
  return text;
}

}  // namespace rz
