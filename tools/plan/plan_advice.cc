#include "tools/plan/plan_advice.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace rz {
namespace {

class Advice {
 public:
  Advice(const PlanConfig& config, const std::vector<StagePlan>& plans)
      : config_(config), plans_(plans), unit_(UnitOf(config, plans)) {}

  std::string Text() const {
    const std::optional<ZeroStage> stage = Recommend(plans_, config_.budget());
    if (!stage) return NothingFits();
    const StagePlan& plan = Of(*stage);
    std::string text = absl::StrCat("take ", StageLabel(*stage), ": ");
    if (*stage == ZeroStage::kDdp) {
      absl::StrAppend(&text, "a rank alone has nobody to share its ", States(plan), " with");
    } else if (*stage == ZeroStage::kOne) {
      absl::StrAppend(&text, "it holds ", States(plan), " where ddp holds ",
                      States(Of(ZeroStage::kDdp)), ", and sends ", Wire(plan));
    } else {
      const StagePlan& before = Of(*stage == ZeroStage::kTwo ? ZeroStage::kOne : ZeroStage::kTwo);
      absl::StrAppend(&text, StageLabel(before.shape.stage), "'s ", States(before),
                      " do not fit into ", Budget(), ", its own ", States(plan),
                      " do, and it sends ", Wire(plan));
    }
    if (!config_.memory) absl::StrAppend(&text, "; --memory says what fits");
    return absl::StrCat(text, Time(plan));
  }

 private:
  const StagePlan& Of(ZeroStage stage) const { return plans_[static_cast<size_t>(stage)]; }

  std::string InUnit(const ByteShare& bytes) const {
    return absl::StrCat(unit_.Of(bytes), " ", unit_.name);
  }
  std::string States(const StagePlan& plan) const { return InUnit(plan.memory()); }

  // "80 GB", "60 GB (of 80 GB, 20 GB are for activations)". Requires that memory is known.
  std::string Budget() const {
    const std::string left = InUnit({*config_.budget(), 1});
    if (config_.activations == 0) return left;
    return absl::StrCat(left, " (of ", InUnit({*config_.memory, 1}), ", ",
                        InUnit({config_.activations, 1}), " are for activations)");
  }

  std::string Wire(const StagePlan& plan) const {
    const double ratio = WireRatio(plans_, plan).value_or(1);
    if (ratio == 1) return "as many bytes as ddp";
    return absl::StrCat(Digits(ratio), " times ddp's bytes");
  }

  // Where both parts of a step are known.
  std::string Time(const StagePlan& plan) const {
    const StepTime time = PredictStep(plan, config_.machine);
    if (!time.apart()) return "";
    const auto milliseconds = [](absl::Duration duration) {
      return Digits(absl::ToDoubleMilliseconds(duration));
    };
    return absl::StrCat("; a step takes ", milliseconds(*time.overlapped()), " to ",
                        milliseconds(*time.apart()), " ms");
  }

  std::string NothingFits() const {
    const StagePlan& least = plans_.back();
    return absl::StrCat("no stage fits: even ", StageLabel(least.shape.stage), " needs ",
                        States(least), " of a rank's ", Budget(), "; it would on ",
                        RanksNeeded(least.shape, *config_.budget()), " ranks of that memory");
  }

  const PlanConfig& config_;
  const std::vector<StagePlan>& plans_;
  const Unit unit_;
};

}  // namespace

Unit UnitOf(const PlanConfig& config, const std::vector<StagePlan>& plans) {
  return ChooseUnit(config.unit, plans[static_cast<size_t>(ZeroStage::kDdp)].memory().bytes());
}

std::optional<double> WireRatio(const std::vector<StagePlan>& plans, const StagePlan& plan) {
  const int64_t ddp = plans[static_cast<size_t>(ZeroStage::kDdp)].wire.payload_bytes();
  if (ddp == 0) return std::nullopt;
  return static_cast<double>(plan.wire.payload_bytes()) / static_cast<double>(ddp);
}

std::string PlanAdvice(const PlanConfig& config, const std::vector<StagePlan>& plans) {
  return Advice(config, plans).Text();
}

}  // namespace rz
