#include "optimizer/kernels/optimizer_config.h"

#include <array>
#include <bit>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "optimizer/kernels/optimizer_kernel.h"

namespace rz {
namespace {

absl::Status OutOfRange(std::string_view field, double value, std::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), " is ", value, "; it must be ", std::string(allowed)));
}

// All written so that NaN fails too.
absl::Status CheckFraction(std::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return OutOfRange(field, value, "at least 0 and below 1");
}

absl::Status CheckNotNegative(std::string_view field, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return OutOfRange(field, value, "finite and at least 0");
}

absl::Status CheckEpsilon(double value) {
  // The kernels compute in fp32. An epsilon that vanishes there would turn padding (0 / 0) into
  // NaN.
  if (static_cast<float>(value) > 0 && std::isfinite(value)) return absl::OkStatus();
  return OutOfRange("epsilon", value, "above 0 in float32");
}

absl::Status CheckBetas(const OptimizerConfig& config) {
  if (absl::Status status = CheckFraction("beta1", config.beta1); !status.ok()) return status;
  return CheckFraction("beta2", config.beta2);
}

absl::Status CheckAdam(const OptimizerConfig& config) {
  if (absl::Status status = CheckBetas(config); !status.ok()) return status;
  return CheckEpsilon(config.epsilon);
}

absl::Status CheckSgd(const OptimizerConfig& config) {
  if (absl::Status s = CheckNotNegative("momentum", config.momentum); !s.ok()) return s;
  if (!std::isfinite(config.dampening)) return OutOfRange("dampening", config.dampening, "finite");
  if (config.nesterov && (config.momentum == 0 || config.dampening != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("nesterov needs a momentum above 0 and a dampening of 0; found momentum ",
                     config.momentum, " and dampening ", config.dampening));
  }
  return absl::OkStatus();
}

absl::Status CheckAdagrad(const OptimizerConfig& config) {
  if (absl::Status s = CheckNotNegative("learning_rate_decay", config.learning_rate_decay);
      !s.ok()) {
    return s;
  }
  return CheckEpsilon(config.epsilon);
}

double AdamStepSize(const OptimizerConfig& config, const StepNumbers& numbers) {
  return config.bias_correction
             ? numbers.learning_rate / (1.0 - std::pow(config.beta1, numbers.step))
             : numbers.learning_rate;
}

double PlainStepSize(const OptimizerConfig&, const StepNumbers& numbers) {
  return numbers.learning_rate;
}

double AdagradStepSize(const OptimizerConfig& config, const StepNumbers& numbers) {
  return numbers.learning_rate /
         (1.0 + static_cast<double>(numbers.step - 1) * config.learning_rate_decay);
}

UpdateRule SgdRuleOf(const OptimizerConfig& config) {
  if (config.momentum == 0) return UpdateRule::kSgd;
  return config.nesterov ? UpdateRule::kNesterov : UpdateRule::kMomentum;
}

template <UpdateRule rule>
UpdateRule Always(const OptimizerConfig&) {
  return rule;
}

// What is an optimizer's own.
struct Row {
  std::string_view name;
  OptimizerConfig defaults;
  absl::Status (*check)(const OptimizerConfig&);
  UpdateRule (*rule)(const OptimizerConfig&);
  double (*step_size)(const OptimizerConfig&, const StepNumbers&);
};

// In the order of OptimizerKind.
constexpr std::array<Row, std::size(kAllOptimizers)> kRows = {{
    {"AdamW", {}, CheckAdam, Always<UpdateRule::kAdamW>, AdamStepSize},
    {"Adam",
     {.kind = OptimizerKind::kAdam, .weight_decay = 0},
     CheckAdam,
     Always<UpdateRule::kAdam>,
     AdamStepSize},
    {"SGD", {.kind = OptimizerKind::kSgd, .weight_decay = 0}, CheckSgd, SgdRuleOf, PlainStepSize},
    {"Lion",
     {.kind = OptimizerKind::kLion, .learning_rate = 1e-4, .weight_decay = 0, .beta2 = 0.99},
     CheckBetas,
     Always<UpdateRule::kLion>,
     PlainStepSize},
    {"Adagrad",
     {.kind = OptimizerKind::kAdagrad, .learning_rate = 1e-2, .weight_decay = 0, .epsilon = 1e-10},
     CheckAdagrad,
     Always<UpdateRule::kAdagrad>,
     AdagradStepSize},
}};

const Row& RowOf(OptimizerKind kind) { return kRows[static_cast<size_t>(kind)]; }

}  // namespace

std::string_view NameOf(OptimizerKind kind) { return RowOf(kind).name; }

std::optional<OptimizerKind> ParseOptimizerKind(std::string_view name) {
  for (const OptimizerKind kind : kAllOptimizers) {
    const std::string_view known = NameOf(kind);
    if (absl::EqualsIgnoreCase(absl::string_view(known.data(), known.size()),
                               absl::string_view(name.data(), name.size()))) {
      return kind;
    }
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& os, OptimizerKind kind) { return os << NameOf(kind); }

OptimizerConfig DefaultsOf(OptimizerKind kind) { return RowOf(kind).defaults; }

absl::Status ValidateOptimizer(const OptimizerConfig& config) {
  for (const auto& [field, value] : {std::pair{"learning_rate", config.learning_rate},
                                     std::pair{"weight_decay", config.weight_decay}}) {
    if (absl::Status status = CheckNotNegative(field, value); !status.ok()) return status;
  }
  return RowOf(config.kind).check(config);
}

std::string Fingerprint(const OptimizerConfig& config) {
  std::string text = absl::StrCat(std::string(NameOf(config.kind)), " ", config.bias_correction,
                                  " ", config.nesterov);
  for (const double number :
       {config.learning_rate, config.weight_decay, config.beta1, config.beta2, config.epsilon,
        config.momentum, config.dampening, config.learning_rate_decay}) {
    absl::StrAppend(&text, " ", absl::Hex(std::bit_cast<uint64_t>(number)));
  }
  return text;
}

UpdateRule RuleOf(const OptimizerConfig& config) { return RowOf(config.kind).rule(config); }

size_t StateCount(const OptimizerConfig& config) { return StateCount(RuleOf(config)); }

StepConstants ConstantsOf(const OptimizerConfig& config, const StepNumbers& numbers) {
  const double correction2 =
      config.bias_correction ? 1.0 - std::pow(config.beta2, numbers.step) : 1.0;
  // The first gradient is the momentum, undampened.
  const double dampening = numbers.step == 1 ? 0 : config.dampening;
  return {
      .grad_scale = static_cast<float>(numbers.grad_scale),
      .weight_decay = static_cast<float>(config.weight_decay),
      .decay = static_cast<float>(1.0 - numbers.learning_rate * config.weight_decay),
      .step_size = static_cast<float>(RowOf(config.kind).step_size(config, numbers)),
      .beta1 = static_cast<float>(config.beta1),
      .one_minus_beta1 = static_cast<float>(1.0 - config.beta1),
      .beta2 = static_cast<float>(config.beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - config.beta2),
      .inverse_root_2 = static_cast<float>(1.0 / std::sqrt(correction2)),
      .eps = static_cast<float>(config.epsilon),
      .momentum = static_cast<float>(config.momentum),
      .one_minus_dampening = static_cast<float>(1.0 - dampening),
  };
}

}  // namespace rz
