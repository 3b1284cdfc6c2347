// What a training run measured, on rank 0 where nothing else is said: written as JSON with
// --report, and read back with
// --reference to be shown beside a later run.
#ifndef RINGZERO_TOOLS_TRAIN_RUN_REPORT_H_
#define RINGZERO_TOOLS_TRAIN_RUN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/memory_report.h"
#include "tools/train/evaluation.h"
#include "tools/train/process_memory.h"
#include "tools/train/step_breakdown.h"
#include "tools/train/train_config.h"

namespace rz {

struct EpochResult {
  double loss = 0;  // mean over the labels of the epoch's samples, each before its own step
  Evaluation test;  // after it
};

struct RunReport {
  TrainConfig config;
  MemoryReport memory;
  std::string transport;
  std::string algorithms;
  int64_t steps = 0;
  std::vector<double> losses;  // of the printed steps: mean over the labels of the global batch
  std::vector<double> norms;   // of the printed steps: L2 of the gradient of that mean
  std::vector<EpochResult> epochs;
  int64_t payload_bytes_per_step = 0;
  int64_t expected_payload_bytes_per_step = 0;
  std::string wire_formula;
  Evaluation test;
  uint32_t weights_crc32c = 0;
  double seconds = 0;
  StepBreakdown breakdown;  // of all ranks

  // Of all ranks; nothing where some system does not tell.
  std::optional<ProcessMemoryOverRanks> process_memory;
};

std::string ToJson(const RunReport& report);

// Whether `what` ("report") could be written there, to be asked before the work; an empty path is
// none.
//   Unknown  it could not; the message has the system's reason
absl::Status CheckWritable(const std::string& path, const char* what);

//   Unknown  the file cannot be written; the message has the system's reason
absl::Status WriteReport(const RunReport& report, const std::string& path);

// What is read of an earlier run's report.
struct ReferenceRun {
  std::string model;
  MemoryReport memory;
  std::vector<double> losses;  // as RunReport's
  std::vector<double> norms;
  double test_accuracy = 0;
  std::string weights_crc32c;  // "0A1B2C3D"
};

//   InvalidArgument  no report of rz_train, or of a newer version
absl::StatusOr<ReferenceRun> ParseReference(std::string_view json);

// Reads the file; every message begins with its path.
//   NotFound, Unknown, OutOfRange  missing, unreadable, larger than kMaxReportBytes
//   InvalidArgument                as above
absl::StatusOr<ReferenceRun> ReadReference(const std::string& path);

// OK where `reference` ran ddp on the same model, dtype and number of ranks as `config` on `world`
// ranks.
//   InvalidArgument  names what differs, both values
absl::Status CheckReference(const ReferenceRun& reference, const TrainConfig& config, int world);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_RUN_REPORT_H_
