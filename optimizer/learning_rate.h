// Learning-rate schedules of DeepSpeed's configuration, as pure functions of the steps that were
// taken: nothing to save, and a skipped step does not move them.
//
// DeepSpeed's scheduler moves after each step, so the step after k + 1 others has the rate of its
// "last batch iteration" k, and the first one that of k = -1. With W = max(2, warmup_steps):
//
//   gamma(k) = ln(k + 1) / ln(W)  (logarithmic), or k / W  (linear)         while k < W
//
//   constant         learning_rate
//   WarmupLR         min + (max - min) * gamma(k), then max                 k = -1: min
//   WarmupDecayLR    the same, then min + (max - min) * (T - k) / (T - W), not below min
//   WarmupCosineLR   learning_rate * ratio: min_ratio + (1 - min_ratio) * gamma(k), then
//                    cos_ratio + (1 - cos_ratio) * (1 + cos(pi * p)) / 2
//                    with p = (k - W + 1) / (T - W), at most 1              k = -1: 0
//
// Source: deepspeed/runtime/lr_schedules.py of DeepSpeed (2026).
#ifndef RINGZERO_OPTIMIZER_LEARNING_RATE_H_
#define RINGZERO_OPTIMIZER_LEARNING_RATE_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rz {

enum class ScheduleKind : uint8_t { kConstant, kWarmup, kWarmupDecay, kWarmupCosine };
inline constexpr ScheduleKind kAllSchedules[] = {ScheduleKind::kConstant, ScheduleKind::kWarmup,
                                                 ScheduleKind::kWarmupDecay,
                                                 ScheduleKind::kWarmupCosine};

// "constant", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"; parsed in any case.
std::string_view NameOf(ScheduleKind kind);
std::optional<ScheduleKind> ParseScheduleKind(std::string_view name);
std::ostream& operator<<(std::ostream& os, ScheduleKind kind);

enum class WarmupShape : uint8_t { kLogarithmic, kLinear };

// "log", "linear".
std::string_view NameOf(WarmupShape shape);
std::optional<WarmupShape> ParseWarmupShape(std::string_view name);

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kConstant;
  WarmupShape warmup = WarmupShape::kLogarithmic;
  int64_t warmup_steps = 1000;

  // T, of WarmupDecayLR and WarmupCosineLR, which need it.
  int64_t total_steps = 0;

  // WarmupLR and WarmupDecayLR. Where max_rate is not set, it is the optimizer's learning rate.
  double min_rate = 0;
  std::optional<double> max_rate = std::nullopt;

  // WarmupCosineLR.
  double warmup_min_ratio = 0;
  double cosine_min_ratio = 1e-4;
};

//   InvalidArgument  names the field, its value and what it may be
absl::Status ValidateSchedule(const ScheduleConfig& config);

// Everything in it, floating-point numbers as bits.
std::string Fingerprint(const ScheduleConfig& config);

// The rate of the step after `steps_taken` others; `learning_rate` is the optimizer's.
double LearningRate(const ScheduleConfig& config, double learning_rate, int64_t steps_taken);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_LEARNING_RATE_H_
