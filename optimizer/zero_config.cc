#include "optimizer/zero_config.h"

#include <array>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr std::array<std::string_view, 5> kStageNames = {"ddp", "naive", "1", "2", "3"};

absl::Status OutOfRange(std::string_view field, double value, std::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), " is ", value, "; it must be ", std::string(allowed)));
}

absl::Status ValidateAdamW(const AdamWConfig& adamw) {
  // Written so that NaN fails too.
  if (!(adamw.beta1 >= 0 && adamw.beta1 < 1)) {
    return OutOfRange("beta1", adamw.beta1, "at least 0 and below 1");
  }
  if (!(adamw.beta2 >= 0 && adamw.beta2 < 1)) {
    return OutOfRange("beta2", adamw.beta2, "at least 0 and below 1");
  }
  // The kernels compute in fp32. An epsilon that vanishes there would turn padding (0 / 0) into
  // NaN.
  if (!(static_cast<float>(adamw.epsilon) > 0) || !std::isfinite(adamw.epsilon)) {
    return OutOfRange("epsilon", adamw.epsilon, "above 0 in float32");
  }
  if (!(adamw.weight_decay >= 0) || !std::isfinite(adamw.weight_decay)) {
    return OutOfRange("weight_decay", adamw.weight_decay, "finite and at least 0");
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view NameOf(ZeroStage stage) { return kStageNames[static_cast<size_t>(stage)]; }

std::optional<ZeroStage> ParseZeroStage(std::string_view name) {
  if (name == "0") return ZeroStage::kDdp;
  for (size_t i = 0; i < kStageNames.size(); ++i) {
    if (kStageNames[i] == name) return static_cast<ZeroStage>(i);
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& os, ZeroStage stage) { return os << NameOf(stage); }

absl::Status ValidateConfig(const ZeroConfig& config) {
  if (config.stage != ZeroStage::kDdp && config.stage != ZeroStage::kOne) {
    return absl::UnimplementedError(
        absl::StrCat("stage ", std::string(NameOf(config.stage)),
                     " is not supported by this optimizer; use ddp or 1"));
  }
  if (config.dtype != DType::kFloat32 && config.dtype != DType::kBFloat16 &&
      config.dtype != DType::kFloat16) {
    return absl::UnimplementedError(
        absl::StrCat("dtype ", std::string(NameOf(config.dtype)),
                     " is not supported for parameters; use float32, bfloat16 or float16"));
  }
  if (config.buckets_in_flight < 1) {
    return OutOfRange("buckets_in_flight", config.buckets_in_flight, "at least 1");
  }
  if (config.ledger == nullptr || config.clock == nullptr) {
    return absl::InvalidArgumentError("the config lacks a memory ledger or a clock");
  }
  return ValidateAdamW(config.adamw);
}

}  // namespace rz
