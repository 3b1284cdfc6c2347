#include "optimizer/config/training_config.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/config.pb.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// Fills in the settings that were worked out, and again where what they follow from has changed.
class WorkedOut {
 public:
  explicit WorkedOut(std::vector<Setting>* settings) : settings_(settings) {}

  void Set(std::string_view key, const std::string& value, std::string_view how) {
    for (Setting& setting : *settings_) {
      if (setting.key != key || (!setting.value.empty() && !setting.worked_out)) continue;
      setting.value = value;
      setting.origin =
          absl::StrCat(absl::StartsWith(setting.origin, "auto") ? "auto: " : "", std::string(how));
      setting.worked_out = true;
    }
  }

 private:
  std::vector<Setting>* settings_;
};

template <typename T>
std::optional<T> If(bool has, T value) {
  return has ? std::optional<T>(value) : std::nullopt;
}

absl::StatusOr<DType> WorkingDType(const proto::Config& config) {
  if (config.fp16().enabled() && config.bf16().enabled()) {
    return absl::InvalidArgumentError("fp16.enabled and bf16.enabled are both true: choose one");
  }
  if (config.fp16().enabled()) return DType::kFloat16;
  return config.bf16().enabled() ? DType::kBFloat16 : DType::kFloat32;
}

constexpr char kHybridShard[] = "HYBRID_SHARD";

absl::StatusOr<ZeroStage> StageOf(const proto::ZeroOptimization& zero) {
  std::string name = zero.stage();
  if (name == "NO_SHARD") name = "0";
  if (name == "SHARD_GRAD_OP") name = "2";
  if (name == "FULL_SHARD" || name == kHybridShard) name = "3";
  const ZeroStage stage = *ParseZeroStage(name);
  if (zero.reduce_scatter() || stage == ZeroStage::kDdp || stage == ZeroStage::kNaive) return stage;
  if (stage == ZeroStage::kOne) return ZeroStage::kNaive;
  return absl::UnimplementedError(absl::StrCat(
      "zero_optimization.reduce_scatter false is naive, which is stage 1; found stage ",
      zero.stage()));
}

// Ranks that shard one copy: as ringzero's key says, or DeepSpeed's of stage 3.
absl::StatusOr<int64_t> GroupSizeOf(const proto::Config& from, ZeroStage stage) {
  const proto::ZeroOptimization& zero = from.zero_optimization();
  const proto::Ringzero& own = from.ringzero();
  const bool is_mics = zero.mics_shard_size() != -1;
  if (own.has_shard_group_size() && own.shard_group_size() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("ringzero.shard_group_size is ", own.shard_group_size(),
                     "; it must be at least 1, or left out for all ranks"));
  }
  if (is_mics && (zero.mics_shard_size() < 1 || stage != ZeroStage::kThree)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "zero_optimization.mics_shard_size is ", zero.mics_shard_size(), " in stage ",
        std::string(NameOf(stage)),
        "; it must be at least 1, of stage 3, or -1 for all ranks; of stages 1 and 2 set "
        "ringzero.shard_group_size"));
  }
  if (is_mics && own.has_shard_group_size() && own.shard_group_size() != zero.mics_shard_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("zero_optimization.mics_shard_size is ", zero.mics_shard_size(),
                     " and ringzero.shard_group_size ", own.shard_group_size(), ": give one"));
  }
  if (own.has_shard_group_size()) return own.shard_group_size();
  if (is_mics) return zero.mics_shard_size();
  return zero.stage() == kHybridShard ? kRanksOfHost : kAllRanks;
}

std::string GroupSizeText(int64_t size) {
  return size == kAllRanks ? "all" : size == kRanksOfHost ? "of a host" : absl::StrCat(size);
}

OptimizerConfig OptimizerOf(const proto::Optimizer& from) {
  const proto::OptimizerParams& params = from.params();
  OptimizerKind kind = *ParseOptimizerKind(from.type());
  if (kind == OptimizerKind::kAdam && params.adam_w_mode()) kind = OptimizerKind::kAdamW;
  if (kind == OptimizerKind::kAdamW && !params.adam_w_mode()) kind = OptimizerKind::kAdam;
  OptimizerConfig to = DefaultsOf(kind);
  if (params.has_lr()) to.learning_rate = params.lr();
  if (params.betas_size() == 2) {
    to.beta1 = params.betas(0);
    to.beta2 = params.betas(1);
  }
  if (params.has_eps()) to.epsilon = params.eps();
  if (params.has_bias_correction()) to.bias_correction = params.bias_correction();
  to.weight_decay = params.weight_decay();
  to.momentum = params.momentum();
  to.dampening = params.dampening();
  to.nesterov = params.nesterov();
  to.learning_rate_decay = params.lr_decay();
  return to;
}

ScheduleConfig ScheduleOf(const proto::Scheduler& from) {
  // As DeepSpeed's.
  constexpr double kDecayMaxRate = 0.001;
  const proto::SchedulerParams& params = from.params();
  ScheduleConfig to;
  to.kind = *ParseScheduleKind(from.type());
  if (to.kind == ScheduleKind::kConstant) return to;
  to.warmup = *ParseWarmupShape(params.warmup_type());
  to.warmup_steps = params.warmup_num_steps();
  to.total_steps = params.total_num_steps();
  to.min_rate = params.warmup_min_lr();
  to.max_rate = If(params.has_warmup_max_lr(), params.warmup_max_lr());
  if (to.kind == ScheduleKind::kWarmupDecay && !to.max_rate) to.max_rate = kDecayMaxRate;
  to.warmup_min_ratio = params.warmup_min_ratio();
  if (to.kind == ScheduleKind::kWarmupCosine) to.cosine_min_ratio = params.cos_min_ratio();
  return to;
}

absl::StatusOr<LossScaleConfig> LossScaleOf(const proto::Fp16& from) {
  if (!from.enabled()) return LossScaleConfig();
  if (from.loss_scale() != 0) return LossScaleConfig{.scale = from.loss_scale()};
  constexpr int64_t kMaxPower = 127;  // of float32
  if (from.initial_scale_power() < 0 || from.initial_scale_power() > kMaxPower) {
    return absl::InvalidArgumentError(absl::StrCat("fp16.initial_scale_power is ",
                                                   from.initial_scale_power(),
                                                   "; it must be from 0 to ", kMaxPower));
  }
  return LossScaleConfig{.dynamic = true,
                         .scale = std::ldexp(1.0, static_cast<int>(from.initial_scale_power())),
                         .window = from.loss_scale_window(),
                         .hysteresis = from.hysteresis(),
                         .consecutive_hysteresis = from.consecutive_hysteresis(),
                         .minimum = from.min_loss_scale()};
}

// A group has no number that its optimizer does not have.
absl::Status CheckGroup(const std::string& key, const proto::ParameterGroup& from,
                        OptimizerKind kind) {
  const bool adam = kind == OptimizerKind::kAdamW || kind == OptimizerKind::kAdam;
  if (!from.has_match()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ".match is needed: a pattern of parameters' names, like \"*.bias\""));
  }
  const char* what = from.betas_size() > 0 && !adam && kind != OptimizerKind::kLion ? ".betas is"
                     : from.has_eps() && !adam && kind != OptimizerKind::kAdagrad   ? ".eps is"
                                                                                    : nullptr;
  if (what == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, what, " nothing that ", std::string(NameOf(kind)), " has; leave it out"));
}

absl::Status FillGroups(const proto::Config& from, TrainingConfig* to) {
  const auto& groups = from.ringzero().parameter_groups();
  if (groups.empty()) return absl::OkStatus();
  // The first is of those that no group matches.
  to->zero.groups.resize(1);
  for (int i = 0; i < groups.size(); ++i) {
    const proto::ParameterGroup& group = groups[i];
    const std::string key = absl::StrCat("ringzero.parameter_groups[", i, "]");
    RZ_RETURN_IF_ERROR(CheckGroup(key, group, to->zero.optimizer.kind));
    ParameterGroup own;
    own.learning_rate = If(group.has_lr(), group.lr());
    own.lr_scale = group.lr_scale();
    own.weight_decay = If(group.has_weight_decay(), group.weight_decay());
    if (group.betas_size() == 2) {
      own.beta1 = group.betas(0);
      own.beta2 = group.betas(1);
    }
    own.epsilon = If(group.has_eps(), group.eps());
    to->group_rules.push_back(
        {.match = group.match(), .group = to->zero.groups.size(), .frozen = group.frozen()});
    to->zero.groups.push_back(own);
  }
  return ValidateGroups(to->zero.optimizer, to->zero.groups);
}

absl::StatusOr<int> BucketsInFlight(const proto::Ringzero& from) {
  constexpr int64_t kMostInFlight = 1024;
  const int64_t buckets = from.buckets_in_flight();
  if (buckets >= 1 && buckets <= kMostInFlight) return static_cast<int>(buckets);
  return absl::InvalidArgumentError(absl::StrCat("ringzero.buckets_in_flight is ", buckets,
                                                 "; it must be from 1 to ", kMostInFlight));
}

absl::Status FillZero(const proto::Config& from, ZeroConfig* zero) {
  RZ_ASSIGN_OR_RETURN(zero->dtype, WorkingDType(from));
  RZ_ASSIGN_OR_RETURN(zero->stage, StageOf(from.zero_optimization()));
  RZ_ASSIGN_OR_RETURN(zero->shard_group_size, GroupSizeOf(from, zero->stage));
  zero->optimizer = OptimizerOf(from.optimizer());
  zero->schedule = ScheduleOf(from.scheduler());
  RZ_ASSIGN_OR_RETURN(zero->loss_scale, LossScaleOf(from.fp16()));
  zero->gradient_clipping = from.gradient_clipping();
  zero->communication_dtype = from.has_communication_data_type()
                                  ? ParseDType(from.communication_data_type())
                                  : std::nullopt;
  zero->accumulation_dtype = from.data_types().has_grad_accum_dtype()
                                 ? ParseDType(from.data_types().grad_accum_dtype())
                                 : std::nullopt;
  zero->max_skipped_steps = from.ringzero().max_skipped_steps();
  if (from.ringzero().has_fused_step()) zero->fuse_step = from.ringzero().fused_step();
  zero->inspect_gradients = from.ringzero().inspect_gradients();
  zero->reduction =
      from.gradient_allreduce_op() == "sum" ? GradientReduction::kSum : GradientReduction::kMean;
  zero->accumulation = from.ringzero().accumulation() == "shard" ? AccumulationPolicy::kShard
                                                                 : AccumulationPolicy::kLocal;
  const std::string& thread = from.ringzero().progress_thread();
  if (thread == "on") zero->progress_thread = ProgressThreadUse::kOn;
  if (thread == "off") zero->progress_thread = ProgressThreadUse::kOff;
  RZ_ASSIGN_OR_RETURN(zero->buckets_in_flight, BucketsInFlight(from.ringzero()));
  const proto::ZeroOptimization& sharding = from.zero_optimization();
  zero->reduce_bucket_size = sharding.reduce_bucket_size();
  zero->allgather_bucket_size =
      If(sharding.has_allgather_bucket_size(), sharding.allgather_bucket_size());
  zero->overlap_communication = sharding.overlap_comm();
  zero->prefetch_bucket_size = sharding.stage3_prefetch_bucket_size();
  zero->max_live_parameters = sharding.stage3_max_live_parameters();
  zero->max_reuse_distance = sharding.stage3_max_reuse_distance();
  zero->param_persistence_threshold = sharding.stage3_param_persistence_threshold();
  RZ_RETURN_IF_ERROR(ValidateOptimizer(zero->optimizer));
  RZ_RETURN_IF_ERROR(ValidateSchedule(zero->schedule));
  return ValidateLossScale(zero->loss_scale);
}

absl::StatusOr<google::protobuf::Struct> ParseJson(std::string_view json) {
  if (json.size() > kMaxConfigBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the configuration has ", json.size(),
                                                   " bytes; expected at most ", kMaxConfigBytes));
  }
  google::protobuf::Struct object;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data(), json.size()), &object);
  if (status.ok()) return object;
  // What follows the first line shows the text around the error.
  const std::string reason(status.message());
  return absl::InvalidArgumentError(
      absl::StrCat("the configuration is no JSON object: ", reason.substr(0, reason.find('\n'))));
}

}  // namespace

void ShowWorkedOut(const ZeroConfig& zero, std::vector<Setting>* settings) {
  WorkedOut worked_out(settings);
  const OptimizerConfig& optimizer = zero.optimizer;
  const std::string how = absl::StrCat("default of ", std::string(NameOf(optimizer.kind)));
  worked_out.Set("optimizer.params.lr", NumberText(optimizer.learning_rate), how);
  worked_out.Set("optimizer.params.eps", NumberText(optimizer.epsilon), how);
  worked_out.Set(
      "optimizer.params.betas",
      absl::StrCat("[", NumberText(optimizer.beta1), ", ", NumberText(optimizer.beta2), "]"), how);
  const std::optional<double>& max_rate = zero.schedule.max_rate;
  if (zero.schedule.kind != ScheduleKind::kConstant) {
    worked_out.Set("scheduler.params.warmup_max_lr",
                   NumberText(max_rate.value_or(optimizer.learning_rate)),
                   max_rate ? "default of WarmupDecayLR" : "optimizer.params.lr");
  }
  worked_out.Set(
      "ringzero.shard_group_size", GroupSizeText(zero.shard_group_size),
      zero.shard_group_size > 0 ? "zero_optimization.mics_shard_size" : "zero_optimization.stage");
  worked_out.Set("ringzero.fused_step", FusingPays(zero) ? "true" : "false",
                 "from inspect_gradients");
  worked_out.Set("communication_data_type", std::string(NameOf(zero.dtype)),
                 "the dtype of the weights");
  worked_out.Set("data_types.grad_accum_dtype", std::string(NameOf(GradientDType(zero))),
                 "communication_data_type");
  worked_out.Set("zero_optimization.allgather_bucket_size", absl::StrCat(zero.reduce_bucket_size),
                 "zero_optimization.reduce_bucket_size");
}

absl::StatusOr<TrainingConfig> ParseConfig(std::string_view json, int ranks,
                                           std::optional<int64_t> train_batch) {
  RZ_ASSIGN_OR_RETURN(const google::protobuf::Struct object, ParseJson(json));
  proto::Config message;
  TrainingConfig config;
  RZ_ASSIGN_OR_RETURN(config.settings, ReadObject(object, &message));
  WorkedOut worked_out(&config.settings);
  const std::optional<int64_t> train =
      If(message.has_train_batch_size(), message.train_batch_size());
  const std::optional<int64_t> micro =
      If(message.has_train_micro_batch_size_per_gpu(), message.train_micro_batch_size_per_gpu());
  const std::optional<int64_t> accumulation =
      If(message.has_gradient_accumulation_steps(), message.gradient_accumulation_steps());
  RZ_ASSIGN_OR_RETURN(config.batch, train_batch
                                        ? ShareBatch(*train_batch, micro, accumulation, ranks)
                                        : SolveBatchSizes(train, micro, accumulation, ranks));
  const std::string how =
      absl::StrCat("from the other batch sizes and ", ranks, ranks == 1 ? " rank" : " ranks");
  worked_out.Set("train_batch_size", absl::StrCat(config.batch.train), how);
  worked_out.Set("train_micro_batch_size_per_gpu", absl::StrCat(config.batch.micro), how);
  worked_out.Set("gradient_accumulation_steps", absl::StrCat(config.batch.accumulation), how);
  RZ_RETURN_IF_ERROR(FillZero(message, &config.zero));
  ShowWorkedOut(config.zero, &config.settings);
  RZ_RETURN_IF_ERROR(FillGroups(message, &config));
  config.zero.gradient_accumulation_steps = config.batch.accumulation;
  config.steps_per_print = message.steps_per_print();
  if (config.steps_per_print < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps_per_print is ", config.steps_per_print,
                     "; it must be at least 0, with which only the first steps have a line"));
  }
  config.wall_clock_breakdown = message.wall_clock_breakdown();
  config.memory_breakdown = message.memory_breakdown();
  return config;
}

}  // namespace rz
