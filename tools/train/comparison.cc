#include "tools/train/comparison.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/memory_report.h"
#include "runtime/base/status_macros.h"
#include "runtime/memory/memory.h"
#include "tools/train/process_memory.h"
#include "tools/train/step_breakdown.h"
#include "tools/train/training_run.h"

namespace rz {
namespace {

constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne,
                                 ZeroStage::kTwo, ZeroStage::kThree};

// "1.50": of what ddp sends.
std::string Ratio(int64_t bytes, int64_t ddp) {
  return ddp == 0 ? "-"
                  : absl::StrFormat("%.2f", static_cast<double>(bytes) / static_cast<double>(ddp));
}

}  // namespace

std::string RenderComparison(absl::Span<const RunReport> reports) {
  std::vector<MemoryReport> memory;
  for (const RunReport& report : reports) memory.push_back(report.memory);
  std::string text = RenderMemoryTable(memory);
  std::vector<ShapeProcessMemory> processes;
  for (const RunReport& report : reports) {
    if (report.process_memory) processes.push_back({report.memory.shape, *report.process_memory});
  }
  if (!processes.empty()) absl::StrAppend(&text, RenderProcessMemory(processes));
  absl::StrAppendFormat(&text, "%-8s | %14s %14s %10s %6s | %8s\n", "stage", "wire, bytes",
                        "formula", "difference", "to ddp", "weights");
  const int64_t ddp = reports[0].payload_bytes_per_step;
  for (const RunReport& report : reports) {
    absl::StrAppendFormat(&text, "%-8s | %14d %14d %10d %6s | %08X\n",
                          std::string(NameOf(report.config.stage)), report.payload_bytes_per_step,
                          report.expected_payload_bytes_per_step,
                          report.payload_bytes_per_step - report.expected_payload_bytes_per_step,
                          Ratio(report.payload_bytes_per_step, ddp), report.weights_crc32c);
  }
  std::vector<std::pair<std::string, StepBreakdown>> breakdowns;
  for (const RunReport& report : reports) {
    breakdowns.emplace_back(StageLabel(report.config.stage), report.breakdown);
  }
  return text + RenderBreakdowns(breakdowns);
}

absl::Status CheckSameWeights(absl::Span<const RunReport> reports) {
  for (const RunReport& report : reports) {
    const auto same_sums = [&](const RunReport& other) {
      return other.memory.shape.groups == report.memory.shape.groups;
    };
    const RunReport& first = *std::find_if(reports.begin(), reports.end(), same_sums);
    if (report.weights_crc32c == first.weights_crc32c) continue;
    return absl::InternalError(
        absl::StrFormat("the weights of stage %s have the crc32c %08X, those of %s %08X",
                        std::string(NameOf(report.config.stage)), report.weights_crc32c,
                        std::string(NameOf(first.config.stage)), first.weights_crc32c));
  }
  return absl::OkStatus();
}

absl::Status CompareStages(const TrainConfig& config, const Dataset& dataset,
                           Communicator* communicator, const std::string& transport,
                           Progress* progress, const Clock* clock, int64_t* step) {
  std::vector<RunReport> reports;
  for (const ZeroStage stage : kStages) {
    TrainConfig one = config;
    one.stage = stage;
    if (stage == ZeroStage::kDdp || stage == ZeroStage::kNaive) {
      one.zero.shard_group_size = kAllRanks;
    }
    MemoryLedger::Default()->ForgetPeaks();
    Progress quiet(nullptr, false, clock);
    TrainingRun run(one, &dataset, communicator, transport, std::nullopt, &quiet, clock);
    const absl::Status status = run.Run();
    *step = run.step();
    RZ_RETURN_IF_ERROR(status);
    reports.push_back(run.report());
    progress->Line(absl::StrFormat("stage %s: %d steps in %.1f s, %s", std::string(NameOf(stage)),
                                   reports.back().steps, reports.back().seconds,
                                   DescribeEvaluation(reports.back().test, dataset)));
    RZ_RETURN_IF_ERROR(progress->status());
  }
  std::string table = RenderComparison(reports);
  absl::StripTrailingAsciiWhitespace(&table);
  progress->Line(table);
  RZ_RETURN_IF_ERROR(progress->status());
  return config.numeric_mode == NumericMode::kDeterministic ? CheckSameWeights(reports)
                                                            : absl::OkStatus();
}

}  // namespace rz
