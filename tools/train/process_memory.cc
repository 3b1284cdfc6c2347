#include "tools/train/process_memory.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// It has some twenty lines.
constexpr size_t kMaxRollupBytes = 16 << 10;

constexpr double kMega = 1e6;

// "Pss:      1234 kB".
std::optional<int64_t> BytesOf(absl::string_view line, absl::string_view name) {
  int64_t kibibytes = 0;
  if (!absl::ConsumePrefix(&line, name) || !absl::ConsumeSuffix(&line, " kB") ||
      !absl::SimpleAtoi(line, &kibibytes) || kibibytes < 0) {
    return std::nullopt;
  }
  return kibibytes * 1024;
}

// A rank's words: now and peak, each PSS and RSS, and now's PSS of files; below 0 where it does not
// know.
using Words = std::array<int64_t, 5>;

BytesOverRanks Summarize(absl::Span<const Words> all, size_t word) {
  std::vector<int64_t> bytes;
  for (const Words& words : all) bytes.push_back(words[word]);
  return SummarizeRanks<int64_t>(bytes);
}

void AppendCells(std::string* table, const BytesOverRanks& over) {
  absl::StrAppendFormat(table, " | %8.1f %8.1f %-5s", over.mean / kMega,
                        static_cast<double>(over.max) / kMega,
                        absl::StrCat("(", over.max_rank, ")"));
}

}  // namespace

std::optional<ProcessMemory> ParseSmapsRollup(std::string_view text) {
  std::optional<int64_t> pss, pss_of_files, rss;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    if (!pss) pss = BytesOf(line, "Pss:");
    if (!pss_of_files) pss_of_files = BytesOf(line, "Pss_File:");
    if (!rss) rss = BytesOf(line, "Rss:");
  }
  if (!pss || !rss) return std::nullopt;
  return ProcessMemory{
      .pss_bytes = *pss, .pss_of_files_bytes = pss_of_files.value_or(0), .rss_bytes = *rss};
}

std::optional<ProcessMemory> ReadProcessMemory() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/smaps_rollup", "r"),
                                                   &std::fclose);
  if (file == nullptr) return std::nullopt;
  std::string text(kMaxRollupBytes, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return ParseSmapsRollup(text);
}

void ProcessMemorySamples::Take() {
  now_ = ReadProcessMemory();
  if (!now_) return;
  if (!peak_) peak_ = ProcessMemory();
  peak_->pss_bytes = std::max(peak_->pss_bytes, now_->pss_bytes);
  peak_->rss_bytes = std::max(peak_->rss_bytes, now_->rss_bytes);
}

absl::StatusOr<std::optional<ProcessMemoryOverRanks>> MemoryOverRanks(
    const ProcessMemorySamples& samples, Communicator* communicator) {
  Words own;
  own.fill(-1);
  if (samples.now() && samples.peak()) {
    own = {samples.now()->pss_bytes, samples.peak()->pss_bytes, samples.now()->rss_bytes,
           samples.peak()->rss_bytes, samples.now()->pss_of_files_bytes};
  }
  std::vector<Words> all(static_cast<size_t>(communicator->world_size()));
  RZ_RETURN_IF_ERROR(communicator->AllGather(
      own.data(), all.data(), static_cast<int64_t>(own.size() * all.size()), DType::kInt64));
  if (std::any_of(all.begin(), all.end(), [](const Words& words) { return words[0] < 0; })) {
    return std::optional<ProcessMemoryOverRanks>();
  }
  return std::optional<ProcessMemoryOverRanks>({.pss = Summarize(all, 0),
                                                .pss_of_files = Summarize(all, 4),
                                                .pss_peak = Summarize(all, 1),
                                                .rss = Summarize(all, 2),
                                                .rss_peak = Summarize(all, 3)});
}

std::string RenderProcessMemory(absl::Span<const ShapeProcessMemory> runs) {
  std::string table = absl::StrFormat(
      "process memory, MB a rank: mean over ranks, most (rank)\n%-8s | %9s | %-23s | %-23s | %-23s "
      "| "
      "%-23s | %s | %s\n",
      "", "formula", "PSS", "PSS, peak", "RSS", "RSS, peak", "files in PSS",
      "less than ddp: formula, PSS");
  const ShapeProcessMemory& first = runs[0];
  for (const ShapeProcessMemory& run : runs) {
    absl::StrAppendFormat(&table, "%-8s | %9.1f", StageLabel(run.shape.stage),
                          ModelStateFormula(run.shape).bytes() / kMega);
    AppendCells(&table, run.memory.pss);
    AppendCells(&table, run.memory.pss_peak);
    AppendCells(&table, run.memory.rss);
    AppendCells(&table, run.memory.rss_peak);
    absl::StrAppendFormat(&table, " | %12.1f", run.memory.pss_of_files.mean / kMega);
    if (first.shape.stage == ZeroStage::kDdp && run.shape.stage != ZeroStage::kDdp) {
      absl::StrAppendFormat(
          &table, " | %8.1f %8.1f",
          (ModelStateFormula(first.shape).bytes() - ModelStateFormula(run.shape).bytes()) / kMega,
          (first.memory.pss.mean - run.memory.pss.mean) / kMega);
    }
    absl::StripTrailingAsciiWhitespace(&table);
    absl::StrAppend(&table, "\n");
  }
  return table;
}

}  // namespace rz
