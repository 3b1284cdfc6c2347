#include "tools/train/config_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "optimizer/config/training_config.h"
#include "runtime/base/status_macros.h"
#include "tools/train/limits.h"

namespace rz {
namespace {

// The numbers of the file's optimizer, or of the flags' where they name another.
OptimizerConfig Optimizer(const OptimizerConfig& file, const OptimizerConfig& given,
                          const FlagSet& flags) {
  if (flags.WasSet("optimizer")) return given;
  OptimizerConfig optimizer = file;
  if (flags.WasSet("lr")) optimizer.learning_rate = given.learning_rate;
  if (flags.WasSet("weight-decay")) optimizer.weight_decay = given.weight_decay;
  if (flags.WasSet("momentum")) optimizer.momentum = given.momentum;
  if (flags.WasSet("nesterov")) optimizer.nesterov = given.nesterov;
  return optimizer;
}

ScheduleConfig Schedule(const ScheduleConfig& file, const ScheduleConfig& given,
                        const FlagSet& flags) {
  if (flags.WasSet("schedule")) return given;
  ScheduleConfig schedule = file;
  if (flags.WasSet("warmup")) schedule.warmup = given.warmup;
  if (flags.WasSet("warmup-steps")) schedule.warmup_steps = given.warmup_steps;
  return schedule;
}

// Which keys a flag beats, and what it makes of them.
struct Beaten {
  const char* flag;
  const char* key;
  std::string value;
};

std::vector<Beaten> BeatenBy(const TrainConfig& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  const auto text = [](auto name) { return std::string(NameOf(name)); };
  const auto truth = [](bool value) { return std::string(value ? "true" : "false"); };
  return {
      {"stage", "zero_optimization.stage", text(config.stage)},
      {"dtype", "fp16.enabled", truth(config.dtype == DType::kFloat16)},
      {"dtype", "bf16.enabled", truth(config.dtype == DType::kBFloat16)},
      {"optimizer", "optimizer.type", text(optimizer.kind)},
      {"lr", "optimizer.params.lr", NumberText(optimizer.learning_rate)},
      {"weight-decay", "optimizer.params.weight_decay", NumberText(optimizer.weight_decay)},
      {"momentum", "optimizer.params.momentum", NumberText(optimizer.momentum)},
      {"nesterov", "optimizer.params.nesterov", truth(optimizer.nesterov)},
      {"schedule", "scheduler.type", text(config.schedule.kind)},
      {"warmup", "scheduler.params.warmup_type", text(config.schedule.warmup)},
      {"warmup-steps", "scheduler.params.warmup_num_steps",
       absl::StrCat(config.schedule.warmup_steps)},
      {"clip", "gradient_clipping", NumberText(config.clip)},
      {"loss-scale", "fp16.loss_scale", NumberText(config.loss_scale.scale)},
      {"accumulate", "gradient_accumulation_steps",
       absl::StrCat(config.zero.gradient_accumulation_steps)},
      {"accumulation", "ringzero.accumulation",
       config.zero.accumulation == AccumulationPolicy::kShard ? "shard" : "local"},
      {"shard-group", "ringzero.shard_group_size",
       config.zero.shard_group_size == kRanksOfHost ? "of a host"
                                                    : absl::StrCat(config.zero.shard_group_size)},
      {"overlap", "zero_optimization.overlap_comm", truth(config.zero.overlap_communication)},
      {"progress-thread", "ringzero.progress_thread",
       config.zero.progress_thread == ProgressThreadUse::kOn    ? "on"
       : config.zero.progress_thread == ProgressThreadUse::kOff ? "off"
                                                                : "auto"},
      {"global-batch", "train_batch_size", absl::StrCat(config.global_batch)}};
}

void Remove(const std::string& prefix, std::vector<Setting>* settings) {
  settings->erase(std::remove_if(settings->begin(), settings->end(),
                                 [&](const Setting& s) { return absl::StartsWith(s.key, prefix); }),
                  settings->end());
}

void ShowFlags(const FlagSet& flags, const TrainConfig& config, std::vector<Setting>* settings) {
  // These say nothing any more.
  if (flags.WasSet("optimizer")) Remove("optimizer.params.", settings);
  if (flags.WasSet("schedule")) Remove("scheduler.params.", settings);
  if (flags.WasSet("global-batch") || flags.WasSet("accumulate")) {
    Remove("train_micro_batch_size_per_gpu", settings);
  }
  for (const Beaten& beaten : BeatenBy(config)) {
    if (!flags.WasSet(beaten.flag)) continue;
    auto setting = std::find_if(settings->begin(), settings->end(),
                                [&](const Setting& s) { return s.key == beaten.key; });
    if (setting == settings->end()) {
      setting = settings->insert(settings->end(), Setting{beaten.key, "", ""});
    }
    setting->value = beaten.value;
    setting->origin = absl::StrCat("--", beaten.flag);
  }
}

}  // namespace

absl::Status ApplyConfig(std::string_view json, const FlagSet& flags, int ranks,
                         TrainConfig* config) {
  const std::optional<int64_t> batch =
      flags.WasSet("global-batch") ? std::optional(config->global_batch) : std::nullopt;
  RZ_ASSIGN_OR_RETURN(TrainingConfig file, ParseConfig(json, ranks, batch));
  const ZeroConfig given = std::exchange(config->zero, file.zero);
  if (flags.WasSet("accumulate")) {
    config->zero.gradient_accumulation_steps = given.gradient_accumulation_steps;
  }
  if (flags.WasSet("accumulation")) config->zero.accumulation = given.accumulation;
  if (flags.WasSet("shard-group")) {
    config->zero.shard_group_size = given.shard_group_size;
  } else if (flags.WasSet("stage") && file.zero.shard_group_size == kRanksOfHost) {
    config->zero.shard_group_size = kAllRanks;  // those of HYBRID_SHARD, a name of a stage
  }
  if (flags.WasSet("overlap")) config->zero.overlap_communication = given.overlap_communication;
  if (flags.WasSet("progress-thread")) config->zero.progress_thread = given.progress_thread;
  if (!flags.WasSet("stage")) config->stage = file.zero.stage;
  if (!flags.WasSet("dtype")) config->dtype = file.zero.dtype;
  config->optimizer = Optimizer(file.zero.optimizer, config->optimizer, flags);
  config->schedule = Schedule(file.zero.schedule, config->schedule, flags);
  if (!flags.WasSet("clip")) config->clip = file.zero.gradient_clipping;
  if (!flags.WasSet("loss-scale") && file.zero.dtype == DType::kFloat16) {
    config->loss_scale = file.zero.loss_scale;
  }
  if (!flags.WasSet("global-batch")) {
    if (file.batch.train > kMaxGlobalBatch) {
      return absl::InvalidArgumentError(absl::StrCat("train_batch_size is ", file.batch.train,
                                                     "; expected at most ", kMaxGlobalBatch));
    }
    config->global_batch = file.batch.train;
  }
  config->group_rules = std::move(file.group_rules);
  config->steps_per_print = file.steps_per_print;
  config->step_breakdown = file.wall_clock_breakdown;
  // What follows from what flags have changed.
  ZeroConfig resolved = config->zero;
  resolved.stage = config->stage;
  resolved.dtype = config->dtype;
  resolved.optimizer = config->optimizer;
  resolved.schedule = config->schedule;
  ShowWorkedOut(resolved, &file.settings);
  ShowFlags(flags, *config, &file.settings);
  config->settings = std::move(file.settings);
  return absl::OkStatus();
}

absl::Status ApplyConfigFile(const std::string& path, const FlagSet& flags, int ranks,
                             TrainConfig* config) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "r"), &std::fclose);
  if (file == nullptr) {
    const std::string reason = absl::StrCat(path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(reason) : absl::UnknownError(reason);
  }
  // One byte more than ParseConfig takes.
  std::string text(kMaxConfigBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return absl::UnknownError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  const absl::Status status = ApplyConfig(text, flags, ranks, config);
  return status.ok() ? status
                     : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace rz
