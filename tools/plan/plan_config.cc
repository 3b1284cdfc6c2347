#include "tools/plan/plan_config.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collectives/algorithm.h"
#include "collectives/limits.h"
#include "collectives/selection.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 40;
constexpr double kMaxMomentum = 1;

absl::Status MustBePositive(const char* flag, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " takes more than 0, not ", value));
}

}  // namespace

absl::StatusOr<int64_t> ParseParameterCount(const std::string& text) {
  std::string number = text;
  // Of parameters a B is a billion; of buffers, which ParseSize is for, a byte.
  if (absl::EndsWithIgnoreCase(number, "b")) number.back() = 'G';
  double written = 0;
  int64_t count = 0;
  if (absl::SimpleAtod(number, &written)) {
    if (written == std::floor(written) && std::abs(written) <= 9e18) {
      count = static_cast<int64_t>(written);
    }
  } else if (!ParseSize(number, SizeUnit::kDecimal, &count).ok()) {
    count = 0;
  }
  if (count < 1 || count > kMaxPlannedParameters) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--params takes a whole number of parameters from 1 to ", kMaxPlannedParameters,
        ", such as 124475904, 350M, 7.5G, 7.5B or 7.5e9, not '", absl::CHexEscape(text), "'"));
  }
  return count;
}

void PlanFlags::Declare(FlagSet* flags) {
  flags->String("params", &params_, "of the model, e.g. 124475904, 7.5G, 7.5B or 7.5e9; needed",
                {"p"});
  flags->Int("ranks", &ranks_, {1, kMaxPlannedRanks}, "that share the states; needed", {"n", "np"});
  flags->Int("shard-group", &shard_group_, {0, kMaxPlannedRanks},
             "of them that shard one copy of the states, as other groups of them do; 0: all");
  flags->Enum("dtype", &dtype_, {"bf16", "fp16", "fp32"},
              "of working weights and gradients; 16 bits have fp32 master weights beside them");
  flags->Enum("optimizer", &optimizer_, {"AdamW", "Adam", "SGD", "Lion", "Adagrad"},
              "whose states are counted");
  flags->Double("momentum", &momentum_, {0, kMaxMomentum}, "of SGD; above 0 it has a state");
  flags->Size("memory", &memory_, "bytes a rank has: which stages fit, and how large a model", {},
              SizeUnit::kDecimal);
  flags->Size("activations", &values_.activations,
              "of --memory, what a rank needs beside its model states", {}, SizeUnit::kDecimal);
  flags->Size("bandwidth", &bandwidth_, "bytes/s of a rank in each direction: communicating takes",
              {}, SizeUnit::kDecimal);
  flags->Size("flops", &flops_,
              "that a rank reaches a second in forward and backward: computing takes", {},
              SizeUnit::kDecimal);
  flags->Int("tokens", &tokens_, {1, kMaxTokens}, "(or samples) of a rank in a step, for --flops");
  flags->Enum("numeric", &numeric_, {"deterministic", "fast"},
              "deterministic: a ring of 16-bit elements carries float32 sums");
  flags->String("algo", &algorithms_, "collective:algorithm,... as in RZ_ALGO");
  flags->Bool("states", &values_.each_state, "show master and moments one by one, too");
  flags->Enum("unit", &values_.unit, {"auto", "GB", "MB", "GiB", "MiB", "bytes"},
              "of memory and wire; auto is GB = 1e9 bytes, MB for small models");
  flags->String("csv", &values_.csv_path, "write the table to this file, or FILE.1, ...");
  flags->String("json", &values_.json_path, "write the table to this file, or FILE.1, ...");
}

absl::Status PlanFlags::ReadModel(const FlagSet& flags, PlanConfig* config) const {
  for (const char* needed : {"params", "ranks"}) {
    if (!flags.WasSet(needed)) {
      return absl::InvalidArgumentError(absl::StrCat("--", needed, " is needed"));
    }
  }
  RZ_ASSIGN_OR_RETURN(config->model.parameters, ParseParameterCount(params_));
  config->model.world = static_cast<int>(ranks_);
  if (shard_group_ > 0 && ranks_ % shard_group_ != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--shard-group takes a number that divides the ",
                                                   ranks_, " of --ranks, not ", shard_group_));
  }
  config->model.group_size = static_cast<int>(shard_group_);
  config->model.dtype = *ParseDType(dtype_);
  config->optimizer = *ParseOptimizerKind(optimizer_);
  if (flags.WasSet("momentum") && config->optimizer != OptimizerKind::kSgd) {
    return absl::InvalidArgumentError(
        absl::StrCat("--momentum is SGD's; the optimizer is ", optimizer_));
  }
  OptimizerConfig optimizer = DefaultsOf(config->optimizer);
  optimizer.momentum = momentum_;
  config->model.optimizer_states = static_cast<int>(StateCount(optimizer));
  return absl::OkStatus();
}

absl::Status PlanFlags::ReadMachine(const FlagSet& flags, PlanConfig* config) const {
  if (flags.WasSet("memory")) {
    RZ_RETURN_IF_ERROR(MustBePositive("memory", memory_));
    config->memory = memory_;
  }
  if (flags.WasSet("activations")) {
    if (!config->memory || config->activations >= *config->memory) {
      return absl::InvalidArgumentError(
          absl::StrCat("--activations takes a part of --memory, which is ",
                       config->memory ? absl::StrCat(*config->memory) : "not given", ", not ",
                       config->activations));
    }
  }
  if (flags.WasSet("bandwidth")) {
    RZ_RETURN_IF_ERROR(MustBePositive("bandwidth", bandwidth_));
    config->machine.bandwidth = static_cast<double>(bandwidth_);
  }
  if (flags.WasSet("flops")) {
    RZ_RETURN_IF_ERROR(MustBePositive("flops", flops_));
    config->machine.flops = static_cast<double>(flops_);
  } else if (flags.WasSet("tokens")) {
    return absl::InvalidArgumentError("--tokens says how much --flops computes: give that too");
  }
  config->machine.tokens = tokens_;
  return absl::OkStatus();
}

absl::Status PlanFlags::ReadRoutes(PlanConfig* config) const {
  const NumericMode mode = *ParseNumericMode(numeric_);
  const DType dtype = config->model.dtype;
  RZ_ASSIGN_OR_RETURN(const WantedAlgorithms wanted, ParseAlgorithms(algorithms_, mode));
  const Selector selector(config->model.world, kDefaultSliceBytes, LinkKind::kNetwork, wanted);
  PlannedRoutes& routes = config->routes;
  RZ_ASSIGN_OR_RETURN(routes.all_reduce, selector.CarriageOf(Collective::kAllReduce, dtype, mode));
  RZ_ASSIGN_OR_RETURN(routes.reduce_scatter,
                      selector.CarriageOf(Collective::kReduceScatter, dtype, mode));
  RZ_ASSIGN_OR_RETURN(routes.all_gather, selector.CarriageOf(Collective::kAllGather, dtype, mode));
  return absl::OkStatus();
}

absl::StatusOr<PlanConfig> PlanFlags::Read(const FlagSet& flags) const {
  PlanConfig config = values_;
  RZ_RETURN_IF_ERROR(ReadModel(flags, &config));
  RZ_RETURN_IF_ERROR(ReadMachine(flags, &config));
  RZ_RETURN_IF_ERROR(ReadRoutes(&config));
  return config;
}

}  // namespace rz
