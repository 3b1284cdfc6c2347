#include "tools/train/run_report.h"

#include <google/protobuf/util/json_util.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/run_report.pb.h"
#include "runtime/base/status_macros.h"
#include "tools/train/limits.h"

namespace rz {
namespace {

constexpr char kFormat[] = "ringzero training report";
constexpr int32_t kVersion = 1;

// What a double holds exactly.
constexpr double kMaxWhole = 9007199254740992;

// Where the bytes of kModelStates stand, in its order.
struct StateField {
  const char* name;
  bool (proto::MemoryReport::*has)() const;
  double (proto::MemoryReport::*get)() const;
  void (proto::MemoryReport::*set)(double);
};

#define RZ_STATE_FIELD(name)                                             \
  StateField {                                                           \
#name, &proto::MemoryReport::has_##name, &proto::MemoryReport::name, \
        &proto::MemoryReport::set_##name                                 \
  }
constexpr std::array<StateField, kModelStates.size()> kStateFields = {
    RZ_STATE_FIELD(parameters_bytes), RZ_STATE_FIELD(gradients_bytes), RZ_STATE_FIELD(master_bytes),
    RZ_STATE_FIELD(moment1_bytes), RZ_STATE_FIELD(moment2_bytes)};
#undef RZ_STATE_FIELD

void ToProto(const MemoryReport& memory, proto::MemoryReport* to) {
  to->set_world(memory.shape.world);
  to->set_groups(memory.shape.groups);
  to->set_optimizer_states(memory.shape.optimizer_states);
  to->set_stage(std::string(NameOf(memory.shape.stage)));
  to->set_dtype(std::string(NameOf(memory.shape.dtype)));
  to->set_parameter_elements(static_cast<double>(memory.shape.parameter_elements));
  to->set_padding_elements(static_cast<double>(memory.shape.padding_elements));
  to->set_frozen_elements(static_cast<double>(memory.shape.frozen_elements));
  to->set_frozen_padding_elements(static_cast<double>(memory.shape.frozen_padding_elements));
  to->set_gradient_dtype(
      std::string(NameOf(memory.shape.gradient_dtype.value_or(memory.shape.dtype))));
  for (size_t i = 0; memory.measured && i < kStateFields.size(); ++i) {
    (to->*kStateFields[i].set)(static_cast<double>((*memory.measured)[i]));
  }
  for (const OtherMemory& other : memory.other) {
    proto::OtherMemoryReport& report = (*to->mutable_other())[std::string(NameOf(other.tag))];
    report.set_now_bytes(static_cast<double>(other.now));
    report.set_peak_bytes(static_cast<double>(other.peak));
  }
}

void ToProto(const StepBreakdown& breakdown, proto::RunReport* to) {
  for (size_t row = 0; row < kBreakdownRows; ++row) {
    const TimeOverRanks& over = breakdown.rows[row];
    proto::TimeReport& time = *to->add_breakdown();
    time.set_part(std::string(BreakdownRowName(row)));
    time.set_mean_ms(over.mean);
    time.set_min_ms(over.min);
    time.set_max_ms(over.max);
    time.set_max_rank(over.max_rank);
  }
}

void ToProto(const BytesOverRanks& over, proto::BytesReport* to) {
  to->set_mean_bytes(over.mean);
  to->set_max_bytes(static_cast<double>(over.max));
  to->set_max_rank(over.max_rank);
}

void ToProto(const ProcessMemoryOverRanks& memory, proto::ProcessMemoryReport* to) {
  ToProto(memory.pss, to->mutable_pss());
  ToProto(memory.pss_peak, to->mutable_pss_peak());
  ToProto(memory.rss, to->mutable_rss());
  ToProto(memory.rss_peak, to->mutable_rss_peak());
}

absl::Status Missing(const std::string& name) {
  return absl::InvalidArgumentError(
      absl::StrCat("no report of rz_train: expected \"", name, "\", found nothing"));
}

absl::StatusOr<int64_t> Whole(const std::string& name, bool present, double value) {
  if (!present) return Missing(name);
  if (value >= 0 && value <= kMaxWhole && value == std::floor(value)) {
    return static_cast<int64_t>(value);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\": expected a whole number from 0 on, found ", value));
}

absl::StatusOr<MemoryReport> FromProto(const proto::MemoryReport& from) {
  if (!from.has_stage() || !ParseZeroStage(from.stage()) || !from.has_dtype() ||
      !ParseDType(from.dtype()) || from.world() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a stage, a dtype and a world in \"memory\", found \"", from.stage(),
                     "\", \"", from.dtype(), "\" and ", from.world()));
  }
  MemoryReport memory;
  memory.shape.stage = *ParseZeroStage(from.stage());
  memory.shape.dtype = *ParseDType(from.dtype());
  memory.shape.world = from.world();
  if (from.has_groups()) memory.shape.groups = from.groups();
  if (memory.shape.groups < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"memory.groups\": expected at least 1, found ", memory.shape.groups));
  }
  if (from.has_optimizer_states()) memory.shape.optimizer_states = from.optimizer_states();
  RZ_ASSIGN_OR_RETURN(
      memory.shape.parameter_elements,
      Whole("memory.parameter_elements", from.has_parameter_elements(), from.parameter_elements()));
  RZ_ASSIGN_OR_RETURN(
      memory.shape.padding_elements,
      Whole("memory.padding_elements", from.has_padding_elements(), from.padding_elements()));
  if (from.has_frozen_elements()) {
    RZ_ASSIGN_OR_RETURN(memory.shape.frozen_elements,
                        Whole("memory.frozen_elements", true, from.frozen_elements()));
    RZ_ASSIGN_OR_RETURN(memory.shape.frozen_padding_elements,
                        Whole("memory.frozen_padding_elements", from.has_frozen_padding_elements(),
                              from.frozen_padding_elements()));
  }
  if (from.has_gradient_dtype()) memory.shape.gradient_dtype = ParseDType(from.gradient_dtype());
  memory.measured.emplace();
  for (size_t i = 0; i < kStateFields.size(); ++i) {
    const StateField& field = kStateFields[i];
    RZ_ASSIGN_OR_RETURN((*memory.measured)[i], Whole(absl::StrCat("memory.", field.name),
                                                     (from.*field.has)(), (from.*field.get)()));
  }
  for (size_t i = 0; i < memory.other.size(); ++i) {
    OtherMemory& other = memory.other[i];
    other.tag = kOtherMemory[i];
    const std::string tag(NameOf(other.tag));
    const auto found = from.other().find(tag);
    const std::string path = absl::StrCat("memory.other.", tag);
    if (found == from.other().end()) {
      // Reports had none of these before there were stages 2 and 3.
      if (other.tag == MemoryTag::kAccumulator || other.tag == MemoryTag::kGathered) continue;
      return Missing(path);
    }
    const proto::OtherMemoryReport& bytes = found->second;
    RZ_ASSIGN_OR_RETURN(other.now,
                        Whole(path + ".now_bytes", bytes.has_now_bytes(), bytes.now_bytes()));
    RZ_ASSIGN_OR_RETURN(other.peak,
                        Whole(path + ".peak_bytes", bytes.has_peak_bytes(), bytes.peak_bytes()));
  }
  return memory;
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
  proto::RunReport message;
  message.set_format(kFormat);
  message.set_version(kVersion);
  message.set_dataset(config.dataset);
  message.set_model(config.model.ToString());
  message.set_numeric(std::string(NameOf(config.numeric_mode)));
  message.set_lr(config.optimizer.learning_rate);
  message.set_optimizer(std::string(NameOf(config.optimizer.kind)));
  message.set_schedule(std::string(NameOf(config.schedule.kind)));
  message.set_weight_decay(config.optimizer.weight_decay);
  message.set_global_batch(static_cast<int32_t>(config.global_batch));
  message.set_seed(config.seed);
  message.set_transport(report.transport);
  message.set_algorithms(report.algorithms);
  ToProto(report.memory, message.mutable_memory());
  proto::WireReport& wire = *message.mutable_wire();
  wire.set_payload_bytes_per_step(static_cast<double>(report.payload_bytes_per_step));
  wire.set_expected_bytes_per_step(static_cast<double>(report.expected_payload_bytes_per_step));
  wire.set_formula(report.wire_formula);
  message.set_steps(static_cast<double>(report.steps));
  message.mutable_losses()->Add(report.losses.begin(), report.losses.end());
  message.mutable_norms()->Add(report.norms.begin(), report.norms.end());
  for (const EpochResult& epoch : report.epochs) {
    proto::EpochReport& to = *message.add_epochs();
    to.set_loss(epoch.loss);
    to.set_test_accuracy(epoch.test.accuracy);
    to.set_test_loss(epoch.test.loss);
  }
  message.set_seconds(report.seconds);
  ToProto(report.breakdown, &message);
  if (report.process_memory) ToProto(*report.process_memory, message.mutable_process_memory());
  message.set_test_accuracy(report.test.accuracy);
  message.set_test_loss(report.test.loss);
  message.set_weights_crc32c(absl::StrFormat("%08X", report.weights_crc32c));

  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails for well-known types out of range alone, of which there are none here.
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json;
}

absl::Status CheckWritable(const std::string& path, const char* what) {
  if (path.empty()) return absl::OkStatus();
  FILE* const file = std::fopen(path.c_str(), "a");
  if (file != nullptr && std::fclose(file) == 0) return absl::OkStatus();
  return absl::UnknownError(
      absl::StrCat(path, ": the ", what, " cannot be written: ", std::strerror(errno)));
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
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  proto::RunReport message;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &message, options);
  if (!status.ok()) {
    // What follows the first line shows the text around the error.
    const std::string reason(status.message());
    return absl::InvalidArgumentError(
        absl::StrCat("no report of rz_train: ", reason.substr(0, reason.find('\n'))));
  }
  if (!message.has_format()) return Missing("format");
  if (message.format() != kFormat || message.version() < 1 || message.version() > kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("expected \"", kFormat, "\" version ", kVersion,
                                                   ", found \"", absl::CHexEscape(message.format()),
                                                   "\" version ", message.version()));
  }
  if (!message.has_model()) return Missing("model");
  ReferenceRun run;
  run.model = message.model();
  RZ_ASSIGN_OR_RETURN(run.memory, FromProto(message.memory()));
  run.losses.assign(message.losses().begin(), message.losses().end());
  run.norms.assign(message.norms().begin(), message.norms().end());
  run.test_accuracy = message.test_accuracy();
  run.weights_crc32c = message.weights_crc32c();
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
  const int64_t ranks = int64_t{shape.world} * shape.groups;
  absl::Status status;
  if (shape.stage != ZeroStage::kDdp) {
    status = absl::InvalidArgumentError(
        absl::StrCat("its stage was ", std::string(NameOf(shape.stage)),
                     "; runs are shown beside ddp: give the --report of a run with --stage=ddp"));
  } else if (reference.model != config.model.ToString()) {
    status = Differs("model", reference.model, config.model.ToString());
  } else if (shape.dtype != config.dtype) {
    status = Differs("dtype", std::string(NameOf(shape.dtype)), std::string(NameOf(config.dtype)));
  } else if (ranks != world) {
    status = Differs("number of ranks", absl::StrCat(ranks), absl::StrCat(world));
  }
  return status.ok() ? status : Prefixed("--reference " + config.reference_path, status);
}

}  // namespace rz
