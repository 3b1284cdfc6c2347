#include "tools/train/train_config.h"

#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/fnv_hash.h"
#include "runtime/base/status_macros.h"
#include "tools/train/config_file.h"
#include "tools/train/limits.h"
#include "tools/train/text.h"
#include "tools/train/text_source.h"

namespace rz {
namespace {

constexpr int64_t kDefaultEpochs = 3;
constexpr int64_t kSyntheticTrainCount = 4096;
constexpr int64_t kSyntheticTestCount = 1024;
constexpr int64_t kMaxClasses = 256;  // labels are bytes
constexpr size_t kSyntheticTextLength = 200'000;

constexpr char kImageModel[] = "784-256-128-100-10";

// What learns a text within a minute or two on two cores.
constexpr char kTextModel[] = "gpt-2x2x64x64";
constexpr int64_t kTextBatch = 32;
constexpr double kTextLearningRate = 0.003;
constexpr int64_t kTextEpochs = 1;

absl::StatusOr<int64_t> ParseShardGroup(const std::string& text) {
  int64_t size = 0;
  if (text == "host") return kRanksOfHost;
  if (absl::SimpleAtoi(text, &size) && size > 0) return size;
  return absl::InvalidArgumentError(
      absl::StrCat("--shard-group takes a number of ranks from 1 on, or host, not '",
                   absl::CHexEscape(text), "'"));
}

}  // namespace

std::string TrainConfig::AgreementText() const {
  return absl::StrCat(
      "dataset ", dataset, " model ", model.ToString(), " stage ", std::string(NameOf(stage)),
      " dtype ", std::string(NameOf(dtype)), " numeric ", std::string(NameOf(numeric_mode)),
      " optimizer ", Fingerprint(optimizer), " schedule ", Fingerprint(schedule), " clip ", clip,
      " loss-scale ", Fingerprint(loss_scale), " config ", Fingerprint(zero), " groups ",
      Fingerprint(group_rules), " global-batch ", global_batch, " steps ", steps, " epochs ",
      epochs, " seed ", seed, " algo ", algorithms, " transport ", transport, " compare ", compare,
      " sample ", sample_length, " temperature ", temperature, " breakdown ", step_breakdown,
      " trace ", !trace_path.empty());
}

uint64_t TrainConfig::AgreementHash(const std::string& of_dataset) const {
  const uint64_t hash = FnvHash(absl::StrCat(AgreementText(), of_dataset));
  return hash == 0 ? 1 : hash;
}

void TrainFlags::Declare(FlagSet* flags) {
  DeclareWorkload(flags);
  DeclareSharding(flags);
  flags->String(
      "config", &config_path_,
      "JSON with DeepSpeed's keys (docs/configuration.md); flags beat it. What neither says "
      "is then as there, not as here: ddp, fp32, lr 0.001, weight decay 0, clip 1");
  flags->Bool("print-config", &values_.print_config,
              "print --config as it was resolved, with where each value came from, and stop");
  DeclareOptimizer(flags);
  DeclareRun(flags);
  flags->String("report", &values_.report_path, "write what rank 0 measured to this JSON file");
  flags->String("trace", &values_.trace_path,
                "write what every rank did, moment by moment, to this file, for ui.perfetto.dev or "
                "chrome://tracing: the last steps, as many as fit");
  flags->String("reference", &values_.reference_path,
                "a --report of a ddp run of the same model and ranks, to show beside this one");
}

void TrainFlags::DeclareWorkload(FlagSet* flags) {
  flags->Enum("dataset", &values_.dataset, {"fashion-mnist", "bible-kjv", "synthetic"},
              "what to train on; synthetic is made from the seed to fit the model");
  flags->String("data-dir", &values_.data_dir,
                "where the data set's files are; with bible-kjv any text file to train on instead; "
                "not with synthetic");
  flags->String(
      "model", &model_,
      absl::StrCat("widths of an MLP over images: input, hidden layers, classes (", kImageModel,
                   " without it); with a text a transformer, gpt-LAYERSxHEADSxWIDTHxCONTEXT (",
                   kTextModel, "; with -tied behind it the head is the embedding)"));
}

void TrainFlags::DeclareSharding(FlagSet* flags) {
  flags->Enum(
      "stage", &stage_, {"ddp", "0", "naive", "1", "2", "3"},
      "what is sharded: nothing (ddp, 0), the optimizer states (1; naive, which all-reduces "
      "gradients), gradients too (2), parameters too (3)");
  flags->String("shard-group", &shard_group_,
                "so many consecutive ranks shard one copy of the states, as other groups of them "
                "do: a number that divides the ranks, or host; stages 1, 2 and 3");
  flags->Enum("dtype", &dtype_, {"bf16", "fp16", "fp32"},
              "of working weights and gradients; 16 bits have fp32 master weights beside them");
  flags->Enum("numeric", &numeric_mode_, {"deterministic", "fast"},
              "whether sums must not depend on the algorithm, or may round at every hop");
  flags->String("algo", &values_.algorithms,
                "collective:algorithm,... as in RZ_ALGO, which it beats, e.g. reduce_scatter:ring");
  flags->Enum("transport", &values_.transport, {"auto", "tcp", "shm"},
              "what carries the bytes: the best there is, TCP alone, shared memory alone");
  flags->Int("accumulate", &values_.zero.gradient_accumulation_steps, {1, kMaxGlobalBatch},
             "micro-steps of a step, which share its samples");
  flags->Enum("accumulation", &accumulation_, {"local", "shard"},
              "where micro-steps are added up: on every rank, whole (less traffic), or reduced in "
              "the shard (less memory)");
  flags->Bool("overlap", &values_.zero.overlap_communication,
              "reduce gradients during backward (stages 2 and 3 always do), and gather parameters "
              "during the next forward (stages naive, 1 and 2)");
  flags->Enum(
      "progress-thread", &progress_thread_, {"auto", "on", "off"},
      "whether a thread of each rank moves collectives while the rank computes; auto: where "
      "they overlap with computing and ranks talk over a network");
}

void TrainFlags::DeclareRun(FlagSet* flags) {
  flags->Int("global-batch", &values_.global_batch, {1, kMaxGlobalBatch},
             absl::StrCat("samples of a step over all ranks, which take the rounded-up or -down "
                          "share (with a text ",
                          kTextBatch, ")"));
  flags->Int("steps", &values_.steps, {1, kMaxSteps}, "stop after this many steps");
  flags->Int("epochs", &values_.epochs, {1, kMaxEpochs},
             absl::StrCat("stop after this many epochs (", kDefaultEpochs,
                          " without --steps; with a text ", kTextEpochs, ")"));
  flags->Int("seed", &seed_, {0, std::numeric_limits<int64_t>::max()},
             "of weights, order of samples, synthetic data and text that is drawn");
  flags->Int("sample", &sample_length_, {0, kMaxSampleLength},
             "characters that a model of text writes at the end");
  flags->Double("temperature", &values_.temperature, {0, kMaxTemperature},
                "of --sample: the lower, the likelier each character; 0 takes the likeliest");
  flags->Bool("compare", &values_.compare,
              "train with every stage, one after the other, and show what each costs");
}

void TrainFlags::DeclareOptimizer(FlagSet* flags) {
  const DoubleRange range = {0, kMaxHyperparameter};
  OptimizerConfig& optimizer = values_.optimizer;
  flags->Enum("optimizer", &optimizer_, {"AdamW", "Adam", "SGD", "Lion", "Adagrad"},
              "what updates the weights");
  flags->Double("lr", &optimizer.learning_rate, range,
                absl::StrCat("learning rate (0.0015 for AdamW, with a text ", kTextLearningRate,
                             ", each other optimizer's own without it)"));
  flags->Double("weight-decay", &optimizer.weight_decay, range,
                "decoupled with AdamW and Lion, L2 with the others (0.01 for AdamW, else 0)");
  flags->Double("momentum", &optimizer.momentum, range, "of SGD");
  flags->Bool("nesterov", &optimizer.nesterov, "Nesterov's momentum for SGD");
  flags->Enum("schedule", &schedule_, {"constant", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"},
              "of the learning rate, as DeepSpeed's; --lr is its highest");
  flags->Enum("warmup", &warmup_, {"log", "linear"}, "how --schedule begins");
  flags->Int("warmup-steps", &values_.schedule.warmup_steps, {1, kMaxSteps},
             "how long --schedule takes to its highest rate");
  flags->Double("clip", &values_.clip, range,
                "scale the mean gradient down to this L2 norm; 0 leaves it");
  flags->Double("loss-scale", &loss_scale_, {0, kMaxLossScale},
                "of fp16, for good; 0 is dynamic, from 2^16");
}

absl::Status TrainFlags::ReadWorkload(const FlagSet& flags, TrainConfig* config) const {
  if (config->dataset == "synthetic" && flags.WasSet("data-dir")) {
    return absl::InvalidArgumentError(
        "--data-dir says where fashion-mnist or a text is; --dataset synthetic is made from the "
        "seed: leave out one of them");
  }
  const bool is_text = config->dataset == "bible-kjv" ||
                       (config->dataset == "synthetic" && IsTransformerText(model_));
  const std::string text = flags.WasSet("model") ? model_ : is_text ? kTextModel : kImageModel;
  if (is_text && !IsTransformerText(text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--model \"", text, "\" does not fit ", config->dataset,
        ", which is a text: expected gpt-LAYERSxHEADSxWIDTHxCONTEXT, like ", kTextModel));
  }
  if (!is_text && IsTransformerText(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model \"", text, "\" does not fit ", config->dataset,
                     ", which has images: expected widths joined by '-', like ", kImageModel));
  }
  RZ_ASSIGN_OR_RETURN(config->model, ParseArchitecture(text));
  if (!is_text) {
    if (config->model.mlp()->classes() > kMaxClasses) {
      return absl::InvalidArgumentError(absl::StrCat("--model: expected at most ", kMaxClasses,
                                                     " classes, found ",
                                                     config->model.mlp()->classes()));
    }
    if (flags.WasSet("sample") || flags.WasSet("temperature")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--sample and --temperature are for a model of text; ", config->dataset, " has images"));
    }
    return absl::OkStatus();
  }
  if (!flags.WasSet("data-dir")) config->data_dir.clear();
  if (!flags.WasSet("global-batch")) config->global_batch = kTextBatch;
  if (!flags.WasSet("lr")) config->optimizer.learning_rate = kTextLearningRate;
  if (!config->compare) config->sample_length = sample_length_;
  return absl::OkStatus();
}

void TrainFlags::ReadOptimizer(const FlagSet& flags, TrainConfig* config) const {
  const OptimizerKind kind = *ParseOptimizerKind(optimizer_);
  OptimizerConfig& optimizer = config->optimizer;
  if (kind != OptimizerKind::kAdamW) {
    const OptimizerConfig given = optimizer;
    optimizer = DefaultsOf(kind);
    if (flags.WasSet("lr")) optimizer.learning_rate = given.learning_rate;
    if (flags.WasSet("weight-decay")) optimizer.weight_decay = given.weight_decay;
    optimizer.momentum = given.momentum;
    optimizer.nesterov = given.nesterov;
  }
  config->schedule.kind = *ParseScheduleKind(schedule_);
  config->schedule.warmup = *ParseWarmupShape(warmup_);
  config->loss_scale =
      loss_scale_ == 0 ? DynamicLossScale() : LossScaleConfig{.scale = loss_scale_};
}

absl::Status TrainFlags::CheckOptimizer(const FlagSet& flags, TrainConfig* config) const {
  if (config->optimizer.kind != OptimizerKind::kSgd &&
      (flags.WasSet("momentum") || flags.WasSet("nesterov"))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--momentum and --nesterov are SGD's; the optimizer is ",
                     std::string(NameOf(config->optimizer.kind))));
  }
  if (config->dtype != DType::kFloat16) {
    if (flags.WasSet("loss-scale")) {
      return absl::InvalidArgumentError(absl::StrCat("--loss-scale is for fp16; the dtype is ",
                                                     std::string(NameOf(config->dtype))));
    }
    config->loss_scale = LossScaleConfig();
  }
  return ValidateOptimizer(config->optimizer);
}

absl::StatusOr<TrainConfig> TrainFlags::Read(const FlagSet& flags,
                                             const std::string& environment_algorithms,
                                             int ranks) const {
  TrainConfig config = values_;
  RZ_RETURN_IF_ERROR(ReadWorkload(flags, &config));
  config.stage = *ParseZeroStage(stage_);
  config.dtype = *ParseDType(dtype_);
  config.numeric_mode = *ParseNumericMode(numeric_mode_);
  if (flags.WasSet("shard-group")) {
    RZ_ASSIGN_OR_RETURN(config.zero.shard_group_size, ParseShardGroup(shard_group_));
  }
  if (accumulation_ == "shard") config.zero.accumulation = AccumulationPolicy::kShard;
  if (progress_thread_ == "on") config.zero.progress_thread = ProgressThreadUse::kOn;
  if (progress_thread_ == "off") config.zero.progress_thread = ProgressThreadUse::kOff;
  ReadOptimizer(flags, &config);
  if (flags.WasSet("config")) {
    RZ_RETURN_IF_ERROR(ApplyConfigFile(config_path_, flags, ranks, &config));
  } else if (config.print_config) {
    return absl::InvalidArgumentError("--print-config shows what --config says: give that too");
  }
  RZ_RETURN_IF_ERROR(CheckOptimizer(flags, &config));
  config.seed = static_cast<uint64_t>(seed_);
  if (!flags.WasSet("algo")) config.algorithms = environment_algorithms;
  if (flags.WasSet("steps") && flags.WasSet("epochs")) {
    return absl::InvalidArgumentError("--steps and --epochs exclude each other: give one");
  }
  for (const char* flag : {"stage", "report", "reference", "trace"}) {
    if (!config.compare || !flags.WasSet(flag)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--compare runs every stage and prints what it has: leave out --", flag));
  }
  if (!flags.WasSet("steps") && !flags.WasSet("epochs")) {
    config.epochs = config.model.mlp() != nullptr ? kDefaultEpochs : kTextEpochs;
  }
  return config;
}

namespace {

absl::StatusOr<Dataset> OpenText(const TrainConfig& config) {
  const int64_t context = config.model.transformer()->context;
  if (config.dataset == "synthetic") {
    return TextDataset("synthetic", SyntheticText(config.seed, kSyntheticTextLength), context);
  }
  if (config.data_dir.empty()) {
    RZ_ASSIGN_OR_RETURN(const std::string text, ReadBible());
    return TextDataset(config.dataset, text, context);
  }
  RZ_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(config.data_dir));
  return TextDataset(config.data_dir, text, context);
}

absl::StatusOr<Dataset> OpenImages(const TrainConfig& config) {
  const MlpShape& model = *config.model.mlp();
  if (config.dataset == "synthetic") {
    return ToDataset("synthetic", SyntheticImages(config.seed, model.inputs(), model.classes(),
                                                  kSyntheticTrainCount, kSyntheticTestCount));
  }
  RZ_ASSIGN_OR_RETURN(ImageDataset images, LoadFashionMnist(config.data_dir));
  Dataset dataset = ToDataset("fashion-mnist", std::move(images));
  const SampleSet& train = *dataset.train;
  if (model.inputs() != train.input_size() || model.classes() != train.class_count()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", model.ToString(), " does not fit ", dataset.name, ": expected the first width ",
        train.input_size(), " (pixels of an image) and the ", "last ", train.class_count(),
        " (classes), found ", model.inputs(), " and ", model.classes()));
  }
  return dataset;
}

}  // namespace

absl::StatusOr<Dataset> OpenDataset(const TrainConfig& config) {
  RZ_ASSIGN_OR_RETURN(Dataset dataset,
                      config.model.mlp() != nullptr ? OpenImages(config) : OpenText(config));
  if (config.global_batch > dataset.train->count()) {
    return absl::InvalidArgumentError(absl::StrCat("--global-batch: expected at most the ",
                                                   dataset.train->count(), " training samples of ",
                                                   dataset.name, ", found ", config.global_batch));
  }
  return dataset;
}

}  // namespace rz
