#include "optimizer/loss_scaler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr double kFactor = 2;

absl::Status OutOfRange(const char* field, double value, const char* allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("loss scale: ", field, " is ", value, "; it must be ", allowed));
}

}  // namespace

LossScaleConfig DynamicLossScale() { return {.dynamic = true, .scale = 65536}; }

absl::Status ValidateLossScale(const LossScaleConfig& config) {
  // Written so that NaN fails too.
  if (!(config.scale > 0) || !std::isfinite(config.scale)) {
    return OutOfRange("scale", config.scale, "finite and above 0");
  }
  if (!config.dynamic) return absl::OkStatus();
  if (config.window < 1) {
    return OutOfRange("window", static_cast<double>(config.window), "at least 1");
  }
  if (config.hysteresis < 1) {
    return OutOfRange("hysteresis", static_cast<double>(config.hysteresis), "at least 1");
  }
  if (!(config.minimum > 0) || !(config.minimum <= config.scale)) {
    return OutOfRange("minimum", config.minimum, "above 0 and at most the scale it starts with");
  }
  return absl::OkStatus();
}

std::string Fingerprint(const LossScaleConfig& config) {
  return absl::StrCat(config.dynamic, " ", absl::Hex(std::bit_cast<uint64_t>(config.scale)), " ",
                      config.window, " ", config.hysteresis, " ", config.consecutive_hysteresis,
                      " ", absl::Hex(std::bit_cast<uint64_t>(config.minimum)));
}

LossScaler::LossScaler(const LossScaleConfig& config) : config_(config) {
  state_.scale = config.scale;
  state_.hysteresis = config.hysteresis;
}

absl::Status LossScaler::Update(bool overflow) {
  if (!config_.dynamic) return absl::OkStatus();
  if (overflow) {
    if (absl::Status status = Overflowed(); !status.ok()) return status;
  } else {
    Succeeded();
  }
  ++state_.iteration;
  return absl::OkStatus();
}

absl::Status LossScaler::Overflowed() {
  if (state_.hysteresis > 1) {
    --state_.hysteresis;
  } else if (state_.scale == config_.minimum) {
    return absl::OutOfRangeError(absl::StrCat(
        "gradients overflow at the smallest loss scale, ", config_.minimum,
        ", so it cannot be halved; look for the cause, or set a lower learning rate, a smaller "
        "min_loss_scale or bf16"));
  } else {
    state_.scale = std::max(state_.scale / kFactor, config_.minimum);
  }
  state_.last_overflow = state_.iteration;
  return absl::OkStatus();
}

void LossScaler::Succeeded() {
  if (config_.consecutive_hysteresis) state_.hysteresis = config_.hysteresis;
  const int64_t stable = state_.iteration - state_.last_overflow - 1;
  if (stable <= 0 || stable % config_.window != 0) return;
  state_.hysteresis = config_.hysteresis;
  state_.scale *= kFactor;
}

}  // namespace rz
