#include "optimizer/learning_rate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"constant", "WarmupLR", "WarmupDecayLR",
                                                    "WarmupCosineLR"};
constexpr std::array<std::string_view, 2> kShapeNames = {"log", "linear"};

// As DeepSpeed, to which a logarithm of 1 would be a division by zero.
constexpr int64_t kLeastWarmup = 2;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

template <typename Names>
std::optional<size_t> IndexOf(const Names& names, std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (absl::EqualsIgnoreCase(View(names[i]), View(name))) return i;
  }
  return std::nullopt;
}

absl::Status OutOfRange(std::string_view field, double value, std::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(View(field), " is ", value, "; it must be ", View(allowed)));
}

bool HasTotal(ScheduleKind kind) {
  return kind == ScheduleKind::kWarmupDecay || kind == ScheduleKind::kWarmupCosine;
}

int64_t WarmupSteps(const ScheduleConfig& config) {
  return std::max(kLeastWarmup, config.warmup_steps);
}

// From 0 to 1 over the warm-up. The order of operations is DeepSpeed's.
double Gamma(const ScheduleConfig& config, int64_t k) {
  const auto steps = static_cast<double>(WarmupSteps(config));
  if (config.warmup == WarmupShape::kLinear) return static_cast<double>(k) / steps;
  return 1.0 / std::log(steps) * std::log(static_cast<double>(k + 1));
}

double DecayGamma(const ScheduleConfig& config, int64_t k) {
  const int64_t window = std::max<int64_t>(1, config.total_steps - WarmupSteps(config));
  return std::max(0.0, static_cast<double>(config.total_steps - k) / static_cast<double>(window));
}

double CosineRatio(const ScheduleConfig& config, int64_t k) {
  if (k < WarmupSteps(config)) {
    return config.warmup_min_ratio + Gamma(config, k) * (1.0 - config.warmup_min_ratio);
  }
  const int64_t window = std::max<int64_t>(1, config.total_steps - WarmupSteps(config));
  const double progress =
      std::min(1.0, static_cast<double>(k - WarmupSteps(config) + 1) / static_cast<double>(window));
  const double cosine = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return std::max(0.0, config.cosine_min_ratio + (1.0 - config.cosine_min_ratio) * cosine);
}

}  // namespace

std::string_view NameOf(ScheduleKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<ScheduleKind> ParseScheduleKind(std::string_view name) {
  const std::optional<size_t> index = IndexOf(kNames, name);
  return index ? std::optional(static_cast<ScheduleKind>(*index)) : std::nullopt;
}

std::ostream& operator<<(std::ostream& os, ScheduleKind kind) { return os << NameOf(kind); }

std::string_view NameOf(WarmupShape shape) { return kShapeNames[static_cast<size_t>(shape)]; }

std::optional<WarmupShape> ParseWarmupShape(std::string_view name) {
  const std::optional<size_t> index = IndexOf(kShapeNames, name);
  return index ? std::optional(static_cast<WarmupShape>(*index)) : std::nullopt;
}

absl::Status ValidateSchedule(const ScheduleConfig& config) {
  if (config.kind == ScheduleKind::kConstant) return absl::OkStatus();
  if (config.warmup_steps < 1) {
    return OutOfRange("warmup_steps (warmup_num_steps of a configuration)",
                      static_cast<double>(config.warmup_steps), "at least 1");
  }
  if (HasTotal(config.kind) && config.total_steps < 1) {
    return OutOfRange("total_steps (total_num_steps of a configuration)",
                      static_cast<double>(config.total_steps),
                      absl::StrCat("at least 1: ", View(NameOf(config.kind)), " needs it"));
  }
  // Written so that NaN fails too.
  for (const auto& [field, value] :
       {std::pair{"min_rate", config.min_rate}, std::pair{"max_rate", config.max_rate.value_or(0)},
        std::pair{"warmup_min_ratio", config.warmup_min_ratio},
        std::pair{"cosine_min_ratio", config.cosine_min_ratio}}) {
    if (!(value >= 0) || !std::isfinite(value)) {
      return OutOfRange(field, value, "finite and at least 0");
    }
  }
  return absl::OkStatus();
}

std::string Fingerprint(const ScheduleConfig& config) {
  std::string text =
      absl::StrCat(View(NameOf(config.kind)), " ", View(NameOf(config.warmup)), " ",
                   config.warmup_steps, " ", config.total_steps, " ", config.max_rate.has_value());
  for (const double number : {config.min_rate, config.max_rate.value_or(0), config.warmup_min_ratio,
                              config.cosine_min_ratio}) {
    absl::StrAppend(&text, " ", absl::Hex(std::bit_cast<uint64_t>(number)));
  }
  return text;
}

double LearningRate(const ScheduleConfig& config, double learning_rate, int64_t steps_taken) {
  const int64_t k = steps_taken - 1;
  if (config.kind == ScheduleKind::kConstant) return learning_rate;
  if (config.kind == ScheduleKind::kWarmupCosine) {
    return k < 0 ? 0.0 : learning_rate * CosineRatio(config, k);
  }
  if (k < 0) return config.min_rate;
  const double delta = config.max_rate.value_or(learning_rate) - config.min_rate;
  double gamma = 1;
  if (k < WarmupSteps(config)) {
    gamma = Gamma(config, k);
  } else if (config.kind == ScheduleKind::kWarmupDecay) {
    gamma = DecayGamma(config, k);
  }
  return config.min_rate + delta * gamma;
}

}  // namespace rz
