#include "tools/train/step_breakdown.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// A rank's sums as they travel: nanoseconds, by part, then hidden.
constexpr size_t kWords = kStepPartCount + 1;
using Words = std::array<int64_t, kWords>;

Words ToWords(const StepTimes& times) {
  Words words;
  for (size_t i = 0; i < kStepPartCount; ++i) words[i] = absl::ToInt64Nanoseconds(times.parts[i]);
  words.back() = absl::ToInt64Nanoseconds(times.hidden);
  return words;
}

StepTimes FromWords(const Words& words) {
  StepTimes times;
  for (size_t i = 0; i < kStepPartCount; ++i) times.parts[i] = absl::Nanoseconds(words[i]);
  times.hidden = absl::Nanoseconds(words.back());
  return times;
}

absl::Duration RowOf(const StepTimes& times, size_t row) {
  if (row == kStepRow) return times.total();
  return row == kHiddenRow ? times.hidden : times.parts[row];
}

}  // namespace

std::string_view BreakdownRowName(size_t row) {
  if (row == kStepRow) return "step";
  return row == kHiddenRow ? "hidden communication" : NameOf(static_cast<StepPart>(row));
}

StepBreakdown BreakDown(absl::Span<const StepTimes> sums, int64_t steps) {
  StepBreakdown breakdown;
  breakdown.world = static_cast<int>(sums.size());
  breakdown.steps = steps;
  for (size_t row = 0; row < kBreakdownRows; ++row) {
    std::vector<double> times;
    for (const StepTimes& sum : sums) {
      times.push_back(absl::ToDoubleMilliseconds(RowOf(sum, row)) / static_cast<double>(steps));
    }
    breakdown.rows[row] = SummarizeRanks<double>(times);
  }
  return breakdown;
}

absl::StatusOr<StepBreakdown> BreakDownOverRanks(const StepTimes& sum, int64_t steps,
                                                 Communicator* communicator) {
  const Words own = ToWords(sum);
  std::vector<Words> all(static_cast<size_t>(communicator->world_size()));
  RZ_RETURN_IF_ERROR(communicator->AllGather(
      own.data(), all.data(), static_cast<int64_t>(kWords * all.size()), DType::kInt64));
  std::vector<StepTimes> sums;
  sums.reserve(all.size());
  for (const Words& words : all) sums.push_back(FromWords(words));
  return BreakDown(sums, steps);
}

std::string RenderBreakdowns(
    absl::Span<const std::pair<std::string, StepBreakdown>> labelled_breakdowns) {
  const StepBreakdown& first = labelled_breakdowns[0].second;
  std::string table = absl::StrFormat(
      "step breakdown, ms: each rank's mean over its steps (%d), over %d rank%s: mean, least, most "
      "(rank)\n%-21s",
      first.steps, first.world, first.world == 1 ? "" : "s", "");
  for (const auto& [label, breakdown] : labelled_breakdowns) {
    absl::StrAppendFormat(&table, " | %-31s", label);
  }
  absl::StripTrailingAsciiWhitespace(&table);
  for (size_t row = 0; row < kBreakdownRows; ++row) {
    const std::string name(BreakdownRowName(row));
    absl::StrAppendFormat(&table, "\n%-21s", name);
    for (const auto& [label, breakdown] : labelled_breakdowns) {
      const TimeOverRanks& over = breakdown.rows[row];
      absl::StrAppendFormat(&table, " | %8.3f %8.3f %8.3f %-4s", over.mean, over.min, over.max,
                            absl::StrCat("(", over.max_rank, ")"));
    }
    absl::StripTrailingAsciiWhitespace(&table);
  }
  return table + "\n";
}

std::string DescribeBreakdown(const StepBreakdown& breakdown) {
  std::string line;
  for (size_t row = 0; row < kBreakdownRows; ++row) {
    const TimeOverRanks& over = breakdown.rows[row];
    absl::StrAppendFormat(&line, "%s%s %.3f (most %.3f, rank %d)", row == 0 ? "" : ", ",
                          std::string(BreakdownRowName(row)), over.mean, over.max, over.max_rank);
  }
  return line;
}

}  // namespace rz
