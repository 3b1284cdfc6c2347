#include "tools/bench/against/comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/bench/json.h"
#include "tools/bench/table.h"

namespace rz {
namespace {

constexpr size_t kTimeWidth = 9;
constexpr size_t kRatioWidth = 6;

char LetterOf(size_t setting) { return static_cast<char>('a' + setting % 26); }

// Of a column that is not the first.
size_t ColumnWidth(const Contender& contender) {
  return std::max(contender.name.size(), kTimeWidth + 1);
}

std::string TitleOf(BenchOperation operation, bool in_place) {
  return absl::StrCat("# ", std::string(NameOf(operation)),
                      TraitsOf(operation).reduces ? ", float sum, " : ", float, ",
                      in_place ? "in place" : "out of place");
}

std::string HeaderOf(const Comparison& comparison) {
  const std::vector<Contender>& contenders = comparison.contenders();
  std::string header = absl::StrFormat("#%11s  %*s", "size(B)", static_cast<int>(kTimeWidth) + 1,
                                       absl::StrCat(contenders[0].name));
  for (size_t i = 1; i < contenders.size(); ++i) {
    absl::StrAppend(&header, absl::StrFormat("  %*s  %*s", ColumnWidth(contenders[i]),
                                             contenders[i].name, kRatioWidth, "ratio"));
  }
  return absl::StrCat(header, "  best");
}

std::string RowOf(const Comparison& comparison, const ComparedPoint& point) {
  const std::vector<Contender>& contenders = comparison.contenders();
  const std::optional<ComparedTime> own = comparison.At(0, point);
  std::string row = absl::StrFormat("%12d  %*s", point.size, static_cast<int>(kTimeWidth) + 1,
                                    own ? FormatNumber(own->time_us, kTimeWidth) : "N/A");
  for (size_t i = 1; i < contenders.size(); ++i) {
    const std::optional<ComparedTime> other = comparison.At(i, point);
    std::string time = "N/A";
    if (other.has_value()) {
      time = FormatNumber(other->time_us, kTimeWidth);
      time += contenders[i].settings.size() > 1 ? LetterOf(other->setting) : ' ';
    }
    absl::StrAppend(&row,
                    absl::StrFormat("  %*s  %*s", ColumnWidth(contenders[i]), time, kRatioWidth,
                                    other ? FormatNumber(other->ratio, kRatioWidth) : "N/A"));
  }
  size_t best = 0;
  const bool any = comparison.Best(point, &best).has_value();
  return absl::StrCat(row, "  ", any ? contenders[best].name : "N/A");
}

// How the best rivals stand to `own`; "" where none was measured.
std::string SummaryOf(const Comparison& comparison, size_t own,
                      const std::vector<ComparedPoint>& points) {
  double logarithms = 0, least = 0;
  int64_t least_at = 0;
  int compared = 0;
  for (const ComparedPoint& point : points) {
    size_t rival = 0;
    const std::optional<ComparedTime> best = comparison.Best(point, &rival);
    const std::optional<ComparedTime> ours = comparison.At(own, point);
    if (!best.has_value() || !ours.has_value()) continue;
    const double ratio = best->ratio / ours->ratio;
    logarithms += std::log(ratio);
    if (compared++ == 0 || ratio < least) {
      least = ratio;
      least_at = point.size;
    }
  }
  if (compared == 0) return "";
  return absl::StrFormat("# best peer / %s: mean %.2f, least %.2f at %d B\n",
                         comparison.contenders()[own].name, std::exp(logarithms / compared), least,
                         least_at);
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

size_t Comparison::Setting(size_t contender, const std::string& description) {
  std::vector<std::string>& settings = contenders_[contender].settings;
  const auto found = std::find(settings.begin(), settings.end(), description);
  if (found == settings.end()) settings.push_back(description);
  return static_cast<size_t>(std::find(settings.begin(), settings.end(), description) -
                             settings.begin());
}

void Comparison::Add(size_t contender, size_t setting, int round, const ComparedPoint& point,
                     double time_us) {
  times_[{point, contender, setting}][round] = time_us;
}

const Comparison::Rounds* Comparison::Find(const Key& key) const {
  const auto found = times_.find(key);
  return found == times_.end() ? nullptr : &found->second;
}

std::optional<ComparedTime> Comparison::At(size_t contender, const ComparedPoint& point) const {
  const Rounds* const own = Find({point, 0, 0});
  if (own == nullptr) return std::nullopt;
  std::optional<ComparedTime> best;
  for (size_t setting = 0; setting < contenders_[contender].settings.size(); ++setting) {
    const Rounds* const rounds = Find({point, contender, setting});
    if (rounds == nullptr) continue;
    std::vector<double> times, ratios;
    for (const auto& [round, time] : *rounds) {
      times.push_back(time);
      const auto same = own->find(round);
      if (same != own->end() && same->second > 0) ratios.push_back(time / same->second);
    }
    const double time = Median(times);
    if (!ratios.empty() && (!best.has_value() || time < best->time_us)) {
      best = ComparedTime{time, setting, Median(ratios)};
    }
  }
  return best;
}

std::optional<ComparedTime> Comparison::Best(const ComparedPoint& point, size_t* contender) const {
  std::optional<ComparedTime> best;
  for (size_t i = 1; i < contenders_.size(); ++i) {
    if (contenders_[i].kind != ContenderKind::kRival) continue;
    const std::optional<ComparedTime> time = At(i, point);
    if (!time.has_value() || (best.has_value() && time->time_us >= best->time_us)) continue;
    best = time;
    *contender = i;
  }
  return best;
}

std::vector<ComparedPoint> Comparison::Points() const {
  std::vector<ComparedPoint> points;
  for (const auto& [key, rounds] : times_) {
    if (points.empty() || points.back() != key.point) points.push_back(key.point);
  }
  return points;
}

std::string ComparisonTable(const Comparison& comparison, BenchOperation operation, bool in_place) {
  std::vector<ComparedPoint> points;
  std::vector<std::string> rows;
  for (const ComparedPoint& point : comparison.Points()) {
    if (point.operation != operation || point.in_place != in_place) continue;
    if (!comparison.At(0, point).has_value()) continue;
    points.push_back(point);
    rows.push_back(RowOf(comparison, point));
  }
  if (rows.empty()) return "";
  std::string table =
      absl::StrCat(TitleOf(operation, in_place), ": us a call, and times the first column\n",
                   HeaderOf(comparison), "\n", absl::StrJoin(rows, "\n"), "\n");
  for (size_t i = 0; i < comparison.contenders().size(); ++i) {
    if (comparison.contenders()[i].kind != ContenderKind::kOwn) continue;
    absl::StrAppend(&table, SummaryOf(comparison, i, points));
  }
  return table;
}

std::vector<std::string> SettingLines(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const Contender& contender : comparison.contenders()) {
    for (size_t i = 0; i < contender.settings.size(); ++i) {
      lines.push_back(absl::StrCat("# ", contender.name, " ", std::string(1, LetterOf(i)), ": ",
                                   contender.settings[i]));
    }
  }
  return lines;
}

std::string ComparisonCsv(const Comparison& comparison) {
  std::string csv = "operation,placement,size_bytes,contender,setting,time_us,ratio\n";
  for (const ComparedPoint& point : comparison.Points()) {
    for (size_t i = 0; i < comparison.contenders().size(); ++i) {
      const Contender& contender = comparison.contenders()[i];
      const std::optional<ComparedTime> time = comparison.At(i, point);
      if (!time.has_value()) continue;
      absl::StrAppend(&csv, std::string(NameOf(point.operation)),
                      point.in_place ? ",in_place," : ",out_of_place,", point.size, ",",
                      contender.name, ",\"", contender.settings[time->setting], "\",",
                      absl::StrFormat("%.6g,%.4g\n", time->time_us, time->ratio));
    }
  }
  return csv;
}

std::string ComparisonJson(const Comparison& comparison, const std::vector<std::string>& arguments,
                           int ranks, int rounds) {
  std::vector<std::string> quoted, lines;
  for (const std::string& argument : arguments) quoted.push_back(QuoteJson(argument));
  for (const ComparedPoint& point : comparison.Points()) {
    for (size_t i = 0; i < comparison.contenders().size(); ++i) {
      const Contender& contender = comparison.contenders()[i];
      const std::optional<ComparedTime> time = comparison.At(i, point);
      if (!time.has_value()) continue;
      lines.push_back(absl::StrCat(
          "    {\"operation\": ", QuoteJson(NameOf(point.operation)),
          ", \"placement\": ", QuoteJson(point.in_place ? "in_place" : "out_of_place"),
          ", \"size\": ", point.size, ", \"contender\": ", QuoteJson(contender.name),
          ", \"setting\": ", QuoteJson(contender.settings[time->setting]),
          absl::StrFormat(", \"time\": %.6g, \"ratio\": %.4g}", time->time_us, time->ratio)));
    }
  }
  return absl::StrCat("{\n  \"format\": \"ringzero comparison\",\n  \"version\": 1,\n  \"args\": [",
                      absl::StrJoin(quoted, ", "), "],\n  \"ranks\": ", ranks,
                      ",\n  \"rounds\": ", rounds, ",\n  \"results\": [\n",
                      absl::StrJoin(lines, ",\n"), "\n  ]\n}\n");
}

}  // namespace rz
