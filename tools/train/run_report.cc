#include "tools/train/run_report.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "tools/train/flat_json.h"
#include "tools/train/limits.h"

namespace rz {
namespace {

// Tags of MemoryReport::other, in its order.
constexpr std::array<MemoryTag, 4> kOtherMemory = {MemoryTag::kBucket, MemoryTag::kScratch,
                                                   MemoryTag::kActivation, MemoryTag::kOther};

constexpr char kFormat[] = "ringzero training report";
constexpr int64_t kVersion = 1;

// Names of kModelStates, in its order.
constexpr std::array<const char*, kModelStates.size()> kStateKeys = {
    "parameters", "gradients", "master", "moment1", "moment2"};

// Nine digits hold a loss's float32 exactly; NaN and infinity are no JSON numbers.
std::string Number(double value) {
  const std::string text = absl::StrFormat("%.9g", value);
  return text.find_first_of("ni") == std::string::npos ? text : "null";
}

std::string Numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) texts.push_back(Number(value));
  return absl::StrCat("[", absl::StrJoin(texts, ", "), "]");
}

std::string MemoryJson(const MemoryReport& memory) {
  std::string json = absl::StrFormat(
      "  \"memory\": {\n    \"world\": %d,\n    \"stage\": %s,\n    \"dtype\": %s,\n"
      "    \"parameter_elements\": %d,\n    \"padding_elements\": %d",
      memory.shape.world, JsonString(NameOf(memory.shape.stage)),
      JsonString(NameOf(memory.shape.dtype)), memory.shape.parameter_elements,
      memory.shape.padding_elements);
  for (size_t i = 0; memory.measured && i < kStateKeys.size(); ++i) {
    absl::StrAppendFormat(&json, ",\n    \"%s_bytes\": %d", kStateKeys[i], (*memory.measured)[i]);
  }
  absl::StrAppend(&json, ",\n    \"other\": {");
  const char* separator = "";
  for (const OtherMemory& other : memory.other) {
    absl::StrAppendFormat(&json, "%s%s: {\"now_bytes\": %d, \"peak_bytes\": %d}", separator,
                          JsonString(NameOf(other.tag)), other.now, other.peak);
    separator = ", ";
  }
  return json + "}\n  }";
}

// Typed reads of a flat report.
absl::StatusOr<std::string> Text(const FlatJson& json, const std::string& path) {
  const auto found = json.find(path);
  if (found == json.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no report of rz_train: expected \"", path, "\", found nothing"));
  }
  return found->second;
}

absl::StatusOr<int64_t> Integer(const FlatJson& json, const std::string& path) {
  RZ_ASSIGN_OR_RETURN(const std::string text, Text(json, path));
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", path, "\": expected a whole number from 0 on, found \"", text, "\""));
  }
  return value;
}

absl::Status Differs(const char* what, const std::string& reference, const std::string& here) {
  return absl::InvalidArgumentError(absl::StrCat("its ", what, " was ", reference,
                                                 ", this run's is ", here,
                                                 ": only like runs can be compared"));
}

absl::Status Prefixed(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

std::string ToJson(const RunReport& report) {
  const TrainConfig& config = report.config;
  std::string json = absl::StrFormat(
      "{\n  \"format\": \"%s\",\n  \"version\": %d,\n  \"dataset\": %s,\n  \"model\": %s,\n"
      "  \"numeric\": %s,\n  \"lr\": %s,\n  \"weight_decay\": %s,\n  \"global_batch\": %d,\n"
      "  \"seed\": %u,\n  \"transport\": %s,\n  \"algorithms\": %s,\n",
      kFormat, kVersion, JsonString(config.dataset), JsonString(config.model.ToString()),
      JsonString(NameOf(config.numeric_mode)), Number(config.learning_rate),
      Number(config.weight_decay), config.global_batch, config.seed, JsonString(report.transport),
      JsonString(report.algorithms));
  absl::StrAppend(&json, MemoryJson(report.memory), ",\n");
  absl::StrAppendFormat(
      &json,
      "  \"wire\": {\"payload_bytes_per_step\": %d, \"expected_bytes_per_step\": %d, "
      "\"formula\": %s},\n",
      report.payload_bytes_per_step, report.expected_payload_bytes_per_step,
      JsonString(report.wire_formula));
  std::vector<std::string> epochs;
  for (const EpochResult& epoch : report.epochs) {
    epochs.push_back(absl::StrCat("{\"loss\": ", Number(epoch.loss),
                                  ", \"test_accuracy\": ", Number(epoch.test_accuracy), "}"));
  }
  absl::StrAppendFormat(
      &json,
      "  \"steps\": %d,\n  \"losses\": %s,\n  \"norms\": %s,\n  \"epochs\": [%s],\n"
      "  \"seconds\": %s,\n  \"test_accuracy\": %s,\n"
      "  \"weights_crc32c\": \"%08X\"\n}\n",
      report.steps, Numbers(report.losses), Numbers(report.norms), absl::StrJoin(epochs, ", "),
      Number(report.seconds), Number(report.test_accuracy), report.weights_crc32c);
  return json;
}

absl::Status CheckWritable(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  FILE* const file = std::fopen(path.c_str(), "a");
  if (file != nullptr && std::fclose(file) == 0) return absl::OkStatus();
  return absl::UnknownError(
      absl::StrCat(path, ": the report cannot be written: ", std::strerror(errno)));
}

absl::Status WriteReport(const RunReport& report, const std::string& path) {
  const std::string json = ToJson(report);
  FILE* const file = std::fopen(path.c_str(), "w");
  bool written = file != nullptr && std::fwrite(json.data(), 1, json.size(), file) == json.size();
  if (file != nullptr && std::fclose(file) != 0) written = false;
  if (written) return absl::OkStatus();
  return absl::UnknownError(
      absl::StrCat(path, ": the report cannot be written: ", std::strerror(errno)));
}

absl::StatusOr<ReferenceRun> ParseReference(std::string_view text) {
  RZ_ASSIGN_OR_RETURN(const FlatJson json, ParseFlatJson(text));
  RZ_ASSIGN_OR_RETURN(const std::string format, Text(json, "format"));
  RZ_ASSIGN_OR_RETURN(const int64_t version, Integer(json, "version"));
  if (format != kFormat || version > kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("expected \"", kFormat, "\" version ", kVersion,
                                                   ", found \"", format, "\" version ", version));
  }
  ReferenceRun run;
  RZ_ASSIGN_OR_RETURN(run.model, Text(json, "model"));
  ModelShape& shape = run.memory.shape;
  RZ_ASSIGN_OR_RETURN(const std::string stage, Text(json, "memory.stage"));
  RZ_ASSIGN_OR_RETURN(const std::string dtype, Text(json, "memory.dtype"));
  RZ_ASSIGN_OR_RETURN(const int64_t world, Integer(json, "memory.world"));
  if (!ParseZeroStage(stage) || !ParseDType(dtype) || world < 1 || world > INT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a stage, a dtype and a world, found \"", stage, "\", \"", dtype,
                     "\" and ", world));
  }
  shape.stage = *ParseZeroStage(stage);
  shape.dtype = *ParseDType(dtype);
  shape.world = static_cast<int>(world);
  RZ_ASSIGN_OR_RETURN(shape.parameter_elements, Integer(json, "memory.parameter_elements"));
  RZ_ASSIGN_OR_RETURN(shape.padding_elements, Integer(json, "memory.padding_elements"));
  run.memory.measured.emplace();
  for (size_t i = 0; i < kStateKeys.size(); ++i) {
    RZ_ASSIGN_OR_RETURN((*run.memory.measured)[i],
                        Integer(json, absl::StrCat("memory.", kStateKeys[i], "_bytes")));
  }
  for (size_t i = 0; i < run.memory.other.size(); ++i) {
    OtherMemory& other = run.memory.other[i];
    other.tag = kOtherMemory[i];
    const std::string path = absl::StrCat("memory.other.", std::string(NameOf(other.tag)));
    RZ_ASSIGN_OR_RETURN(other.now, Integer(json, path + ".now_bytes"));
    RZ_ASSIGN_OR_RETURN(other.peak, Integer(json, path + ".peak_bytes"));
  }
  return run;
}

absl::StatusOr<ReferenceRun> ReadReference(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "r"), &std::fclose);
  if (file == nullptr) {
    const std::string reason = absl::StrCat(path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(reason) : absl::UnknownError(reason);
  }
  std::string text(kMaxReportBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return absl::UnknownError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  if (text.size() > kMaxReportBytes) {
    return absl::OutOfRangeError(
        absl::StrCat(path, ": larger than the ", kMaxReportBytes, " bytes a report may have"));
  }
  absl::StatusOr<ReferenceRun> run = ParseReference(text);
  if (!run.ok()) return Prefixed(path, run.status());
  return run;
}

absl::Status CheckReference(const ReferenceRun& reference, const TrainConfig& config, int world) {
  const ModelShape& shape = reference.memory.shape;
  absl::Status status;
  if (reference.model != config.model.ToString()) {
    status = Differs("model", reference.model, config.model.ToString());
  } else if (shape.dtype != config.dtype) {
    status = Differs("dtype", std::string(NameOf(shape.dtype)), std::string(NameOf(config.dtype)));
  } else if (shape.world != world) {
    status = Differs("number of ranks", absl::StrCat(shape.world), absl::StrCat(world));
  }
  return status.ok() ? status : Prefixed("--reference " + config.reference_path, status);
}

}  // namespace rz
