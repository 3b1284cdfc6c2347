// Which stage to take, in words. Pure.
#ifndef RINGZERO_TOOLS_PLAN_PLAN_ADVICE_H_
#define RINGZERO_TOOLS_PLAN_PLAN_ADVICE_H_

#include <optional>
#include <string>
#include <vector>

#include "optimizer/stage_plan.h"
#include "tools/plan/amount.h"
#include "tools/plan/plan_config.h"

namespace rz {

// In which a plan's memory and wire are shown.
Unit UnitOf(const PlanConfig& config, const std::vector<StagePlan>& plans);

// What `plan` sends of what ddp does; none: ddp sends nothing.
std::optional<double> WireRatio(const std::vector<StagePlan>& plans, const StagePlan& plan);

// Which stage to take and why, or what would help where none fits: one sentence on one line, such
// as "take zero-1: ...". `plans` has all of kPlannedStages, in their order.
std::string PlanAdvice(const PlanConfig& config, const std::vector<StagePlan>& plans);

}  // namespace rz

#endif  // RINGZERO_TOOLS_PLAN_PLAN_ADVICE_H_
