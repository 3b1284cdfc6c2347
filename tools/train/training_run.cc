#include "tools/train/training_run.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "optimizer/step_report.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_macros.h"
#include "tools/train/limits.h"
#include "tools/train/sampling.h"
#include "tools/train/step_breakdown.h"
#include "tools/train/text.h"
#include "tools/train/trace_file.h"

namespace rz {
namespace {

constexpr int64_t kPrintedSteps = 20;

// The model and accuracy that Fashion-MNIST's own README lists: "MLP 256-128-100, no
// preprocessing".
constexpr char kPublishedModel[] = "784-256-128-100-10";
constexpr char kPublishedAccuracy[] = "0.8833";

// "reduce_scatter ring (float32 partial sums), all_gather ring, all_reduce of shards ring".
std::string Algorithms(const WireRoutes& routes, ZeroStage stage) {
  const bool whole = stage == ZeroStage::kDdp || stage == ZeroStage::kNaive;
  std::string text = absl::StrCat(whole ? "all_reduce " : "reduce_scatter ", routes.reduce.text);
  if (stage != ZeroStage::kDdp) absl::StrAppend(&text, ", all_gather ", routes.gather.text);
  if (!routes.replicas.text.empty()) {
    absl::StrAppend(&text, ", all_reduce of shards ", routes.replicas.text);
  }
  return text;
}

// "fashion-mnist, 60000 training and 10000 test samples".
std::string DescribeData(const Dataset& dataset) {
  if (dataset.text == nullptr) {
    return absl::StrFormat("%s, %d training and %d test samples", dataset.name,
                           dataset.train->count(), dataset.test->count());
  }
  return absl::StrFormat(
      "%s, %d characters of %d kinds, %d training and %d validation windows of %d", dataset.name,
      dataset.text->symbols.size(), dataset.text->vocabulary.size(), dataset.train->count(),
      dataset.test->count(), dataset.train->label_count());
}

// "group *.bias: 4 parameters, 494 elements; lr 0.001 * 0.5, weight decay 0".
std::string DescribeGroup(const TrainConfig& config, const ZeroOptimizer& optimizer, size_t group) {
  int64_t parameters = 0, elements = 0;
  for (size_t i = 0; i < optimizer.layout().size(); ++i) {
    if (optimizer.layout().spec(i).group != group) continue;
    ++parameters;
    elements += optimizer.layout().range(i).count;
  }
  const std::string start =
      absl::StrCat(group == 0 ? "all others" : "group " + config.group_rules[group - 1].match, ": ",
                   parameters, " parameters, ", elements, " elements");
  if (group > 0 && config.group_rules[group - 1].frozen) return start + "; frozen";
  const ParameterGroup& own = optimizer.config().groups[group];
  const OptimizerConfig numbers = OptimizerOf(optimizer.config().optimizer, own);
  return absl::StrFormat("%s; lr %g%s, weight decay %g", start, numbers.learning_rate,
                         own.lr_scale == 1 ? "" : absl::StrFormat(" * %g", own.lr_scale),
                         numbers.weight_decay);
}

}  // namespace

std::string DescribeEvaluation(const Evaluation& evaluation, const Dataset& dataset) {
  if (dataset.text == nullptr) return absl::StrFormat("test accuracy %.4f", evaluation.accuracy);
  return absl::StrFormat("validation loss %.4f nats/char", evaluation.loss);
}

TrainingRun::TrainingRun(const TrainConfig& config, const Dataset* dataset,
                         Communicator* communicator, std::string transport,
                         std::optional<ReferenceRun> reference, Progress* progress,
                         const Clock* clock)
    : config_(config),
      dataset_(dataset),
      communicator_(communicator),
      reference_(std::move(reference)),
      progress_(progress),
      clock_(clock),
      label_count_(dataset->train->label_count()) {
  report_.config = config;
  report_.transport = std::move(transport);
}

absl::Status TrainingRun::Run() {
  const absl::Duration begin = clock_->Now();
  RZ_ASSIGN_OR_RETURN(trainer_, Trainer::Create(config_, dataset_, communicator_, clock_));
  last_step_ = trainer_->total_steps();
  RZ_ASSIGN_OR_RETURN(const WireRoutes routes, trainer_->optimizer().Routes());
  report_.algorithms = Algorithms(routes, config_.stage);
  PrintHeader();
  RZ_RETURN_IF_ERROR(trainer_->Initialize());
  RZ_ASSIGN_OR_RETURN(const WirePlan wire, trainer_->optimizer().ExpectedWire());
  report_.expected_payload_bytes_per_step = wire.payload_bytes();
  report_.wire_formula = wire.explanation;
  RZ_RETURN_IF_ERROR(StartTrace());
  RZ_RETURN_IF_ERROR(RunSteps());
  report_.seconds = absl::ToDoubleSeconds(clock_->Now() - begin);
  return Finish();
}

absl::Status TrainingRun::StartTrace() {
  if (config_.trace_path.empty()) return absl::OkStatus();
  RZ_ASSIGN_OR_RETURN(alignment_, AlignClocks(communicator_, *clock_));
  trace_.emplace(kMaxTraceEvents);
  trainer_->set_trace(&*trace_);
  return absl::OkStatus();
}

absl::Status TrainingRun::FinishTrace() {
  if (!trace_) return absl::OkStatus();
  trainer_->set_trace(nullptr);
  std::vector<std::string> units;
  const FlatLayout& layout = trainer_->optimizer().layout();
  for (size_t unit = 0; unit < layout.unit_count(); ++unit) units.push_back(layout.unit_name(unit));
  RZ_ASSIGN_OR_RETURN(const std::string description,
                      WriteTrace(&*trace_, alignment_, units, communicator_, config_.trace_path));
  progress_->Line(absl::StrCat("trace: ", config_.trace_path, ": ", description));
  return absl::OkStatus();
}

absl::Status TrainingRun::RunSteps() {
  epoch_begin_ = clock_->Now();
  while (step_ < last_step_) {
    ++step_;
    RZ_RETURN_IF_ERROR(TrainOne());
    RZ_RETURN_IF_ERROR(progress_->status());
    if (step_ % trainer_->steps_per_epoch() == 0) RZ_RETURN_IF_ERROR(EndEpoch());
  }
  report_.steps = last_step_;
  // A bar that was drawn ends its line in the middle of an epoch as well.
  if (step_ > kPrintedSteps && step_ % trainer_->steps_per_epoch() != 0) DrawBar(&Progress::EndBar);
  return absl::OkStatus();
}

absl::Status TrainingRun::TrainOne() {
  RZ_ASSIGN_OR_RETURN(const TrainStep step, trainer_->Step());
  times_ += step.report.times;
  epoch_loss_sum_ += step.local.loss_sum;
  epoch_local_samples_ += step.local_samples;
  epoch_samples_ += step.global_samples;
  if (step.report.skipped) {
    progress_->Line(absl::StrCat("step ", step_, " skipped: ", DescribeNonFinite(step.report)));
  } else {
    report_.payload_bytes_per_step = step.report.payload_bytes;
    wire_difference_ =
        std::max(wire_difference_,
                 std::abs(step.report.payload_bytes - report_.expected_payload_bytes_per_step));
  }
  const bool every = config_.steps_per_print > 0 && step_ % config_.steps_per_print == 0;
  if (step_ <= kPrintedSteps || every) return PrintStep(step);
  DrawBar(&Progress::Bar);
  return absl::OkStatus();
}

void TrainingRun::DrawBar(void (Progress::*draw)(const std::string&, int64_t, int64_t,
                                                 const std::string&)) {
  const int64_t in_epoch = (step_ - 1) % trainer_->steps_per_epoch() + 1;
  const auto labels = static_cast<double>(epoch_local_samples_ * label_count_);
  (progress_->*draw)(EpochLabel(), in_epoch, trainer_->steps_per_epoch(),
                     absl::StrFormat("loss %.4f (of this rank)", epoch_loss_sum_ / labels));
}

absl::Status TrainingRun::EndEpoch() {
  RZ_ASSIGN_OR_RETURN(const double loss_sum, trainer_->SumOverRanks(epoch_loss_sum_));
  RZ_ASSIGN_OR_RETURN(const Evaluation test, trainer_->Evaluate());
  process_memory_.Take();
  const double loss = loss_sum / static_cast<double>(epoch_samples_ * label_count_);
  report_.epochs.push_back({loss, test});
  const absl::Duration now = clock_->Now();
  progress_->EndBar(
      EpochLabel(), trainer_->steps_per_epoch(), trainer_->steps_per_epoch(),
      absl::StrFormat("loss %.4f %s %.1f s", loss, DescribeEvaluation(test, *dataset_),
                      absl::ToDoubleSeconds(now - epoch_begin_)));
  epoch_begin_ = now;
  epoch_loss_sum_ = 0;
  epoch_local_samples_ = 0;
  epoch_samples_ = 0;
  return absl::OkStatus();
}

absl::Status TrainingRun::Finish() {
  RZ_ASSIGN_OR_RETURN(report_.test, trainer_->Evaluate());
  RZ_ASSIGN_OR_RETURN(report_.weights_crc32c, trainer_->WeightsCrc32c());
  RZ_ASSIGN_OR_RETURN(report_.breakdown, BreakDownOverRanks(times_, last_step_, communicator_));
  report_.memory = trainer_->optimizer().Memory();
  process_memory_.Take();
  RZ_ASSIGN_OR_RETURN(report_.process_memory, MemoryOverRanks(process_memory_, communicator_));
  RZ_ASSIGN_OR_RETURN(wire_difference_, trainer_->MaxOverRanks(wire_difference_));
  RZ_ASSIGN_OR_RETURN(const int64_t unbalanced,
                      trainer_->MaxOverRanks(report_.memory.Balances() ? 0 : 1));
  RZ_RETURN_IF_ERROR(FinishTrace());
  PrintSummary();
  RZ_RETURN_IF_ERROR(PrintSample());
  RZ_RETURN_IF_ERROR(progress_->status());
  if (wire_difference_ != 0) {
    return absl::InternalError(absl::StrCat("payload on the wire differs from the formula by ",
                                            wire_difference_, " bytes in some step of some rank"));
  }
  if (unbalanced != 0) {
    return absl::InternalError(
        "some rank's measured model states differ from formula plus padding");
  }
  return absl::OkStatus();
}

std::string TrainingRun::EpochLabel() const {
  const int64_t per_epoch = trainer_->steps_per_epoch();
  return absl::StrFormat("epoch %d/%d", (step_ - 1) / per_epoch + 1,
                         (last_step_ - 1) / per_epoch + 1);
}

void TrainingRun::PrintHeader() {
  const bool wide = config_.dtype == DType::kFloat32;
  const int64_t group_size = trainer_->optimizer().config().shard_group_size;
  const DType gradients = config_.zero.communication_dtype.value_or(config_.dtype);
  progress_->Line(absl::StrFormat("model %s, %d parameters; %s", trainer_->model().ToString(),
                                  trainer_->model().ParameterCount(), DescribeData(*dataset_)));
  progress_->Line(absl::StrFormat(
      "%d rank%s%s, stage %s, %s weights and %sgradients%s, %s sums", communicator_->world_size(),
      communicator_->world_size() == 1 ? "" : "s",
      group_size == 0 ? "" : absl::StrCat(" in groups of ", group_size), StageLabel(config_.stage),
      std::string(NameOf(config_.dtype)),
      gradients == config_.dtype ? "" : absl::StrCat(std::string(NameOf(gradients)), " "),
      wide ? "" : " with fp32 master weights", std::string(NameOf(config_.numeric_mode))));
  progress_->Line(absl::StrFormat(
      "%s, lr %g%s, weight decay %g, clip %g, global batch %d, seed %d, %d steps of %d an epoch",
      std::string(NameOf(config_.optimizer.kind)), config_.optimizer.learning_rate,
      config_.schedule.kind == ScheduleKind::kConstant
          ? ""
          : absl::StrCat(" by ", std::string(NameOf(config_.schedule.kind))),
      config_.optimizer.weight_decay, config_.clip, config_.global_batch, config_.seed, last_step_,
      trainer_->steps_per_epoch()));
  for (size_t group = 0; group < trainer_->optimizer().config().groups.size(); ++group) {
    const std::string line = DescribeGroup(config_, trainer_->optimizer(), group);
    if (!config_.group_rules.empty()) progress_->Line(line);
  }
  progress_->Line(absl::StrFormat("transport %s; %s; %s kernels", report_.transport,
                                  report_.algorithms, std::string(NameOf(ActiveSimdLevel()))));
}

absl::Status TrainingRun::PrintStep(const TrainStep& step) {
  RZ_ASSIGN_OR_RETURN(const double loss_sum, trainer_->SumOverRanks(step.local.loss_sum));
  const double loss = loss_sum / static_cast<double>(step.global_samples * label_count_);
  const StepTimes& times = step.report.times;
  report_.losses.push_back(loss);
  report_.norms.push_back(step.report.norm);
  const MemoryReport memory = trainer_->optimizer().Memory();
  ModelShape ddp = memory.shape;
  ddp.stage = ZeroStage::kDdp;
  constexpr double kMega = 1e6;
  const double samples_a_second =
      static_cast<double>(step.global_samples) / absl::ToDoubleSeconds(times.total());
  const std::string characters =
      dataset_->text == nullptr
          ? ""
          : absl::StrFormat("characters/s %.0f ",
                            samples_a_second * static_cast<double>(label_count_));
  progress_->Line(absl::StrFormat(
      "step %d loss %.4f lr %g norm %.4g scale %g samples/s %.0f %sforward %.1f backward %.1f "
      "comm %.1f optim %.1f ms mem %.3f MB measured, ddp %.3f MB by formula",
      step_, loss, step.report.learning_rate, step.report.norm, step.report.loss_scale,
      samples_a_second, characters, absl::ToDoubleMilliseconds(times[StepPart::kForward]),
      absl::ToDoubleMilliseconds(times[StepPart::kBackward]),
      absl::ToDoubleMilliseconds(times[StepPart::kCommunication]),
      absl::ToDoubleMilliseconds(times[StepPart::kOptimizer]),
      static_cast<double>(memory.measured_total()) / kMega,
      ModelStateFormula(ddp).bytes() / kMega));
  if (!config_.step_breakdown) return absl::OkStatus();
  RZ_ASSIGN_OR_RETURN(const StepBreakdown breakdown, BreakDownOverRanks(times, 1, communicator_));
  progress_->Line(
      absl::StrCat("step ", step_, " ms, mean over ranks: ", DescribeBreakdown(breakdown)));
  return absl::OkStatus();
}

void TrainingRun::PrintTable(std::string table) {
  absl::StripTrailingAsciiWhitespace(&table);
  progress_->Line(table);
}

void TrainingRun::PrintSummary() {
  // DDP first: as measured by the reference run, or by the formula alone.
  std::vector<MemoryReport> reports;
  if (reference_) {
    reports.push_back(reference_->memory);
  } else if (config_.stage != ZeroStage::kDdp) {
    MemoryReport ddp;
    ddp.shape = report_.memory.shape;
    ddp.shape.stage = ZeroStage::kDdp;
    reports.push_back(ddp);
  }
  reports.push_back(report_.memory);
  if (!reference_ && config_.stage == ZeroStage::kDdp) {
    MemoryReport sharded;
    sharded.shape = report_.memory.shape;
    sharded.shape.stage = ZeroStage::kOne;
    reports.push_back(sharded);
  }
  PrintTable(RenderMemoryTable(reports));
  if (report_.process_memory) {
    PrintTable(RenderProcessMemory({{report_.memory.shape, *report_.process_memory}}));
  }
  PrintTable(RenderBreakdowns({{StageLabel(config_.stage), report_.breakdown}}));
  progress_->Line(absl::StrCat("algorithms: ", report_.algorithms));
  progress_->Line(absl::StrFormat(
      "wire: %d payload bytes a step a rank counted, %d by the formula (%s): difference %d",
      report_.payload_bytes_per_step, report_.expected_payload_bytes_per_step, report_.wire_formula,
      wire_difference_));
  progress_->Line(QualityLine());
  progress_->Line(absl::StrFormat("weights crc32c %08X", report_.weights_crc32c));
}

std::string TrainingRun::QualityLine() const {
  const std::string quality = DescribeEvaluation(report_.test, *dataset_);
  if (dataset_->text != nullptr) {
    return absl::StrFormat(
        "%s (bigram entropy %.3f, trigram %.3f; %.1f %% of the characters right)", quality,
        ConditionalEntropy(*dataset_->text, 1), ConditionalEntropy(*dataset_->text, 2),
        100 * report_.test.accuracy);
  }
  const bool published =
      dataset_->name == "fashion-mnist" && config_.model.ToString() == kPublishedModel;
  return absl::StrFormat("%s (%s)", quality,
                         published
                             ? absl::StrCat("published for this MLP: ", kPublishedAccuracy)
                             : absl::StrCat(dataset_->name, ", no published figure for this MLP"));
}

absl::Status TrainingRun::PrintSample() {
  if (dataset_->text == nullptr || config_.sample_length == 0) return absl::OkStatus();
  const SamplingOptions options = {config_.sample_length, config_.temperature, config_.seed};
  RZ_ASSIGN_OR_RETURN(const std::string sample,
                      SampleText(*dataset_->text, options, trainer_.get()));
  progress_->Line(absl::StrFormat("text of the model, %d characters, temperature %g:\n%s",
                                  config_.sample_length, config_.temperature, sample));
  return absl::OkStatus();
}

}  // namespace rz
