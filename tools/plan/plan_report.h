// What rz_plan prints and writes. Pure.
#ifndef RINGZERO_TOOLS_PLAN_PLAN_REPORT_H_
#define RINGZERO_TOOLS_PLAN_PLAN_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/stage_plan.h"
#include "tools/plan/plan_config.h"

namespace rz {

// One plan for each of kPlannedStages, in that order.
//   Unimplemented  as PlanStage
absl::StatusOr<std::vector<StagePlan>> PlanAllStages(const PlanConfig& config);

// A line for each quantity, a column for each stage; under it what was assumed and left out.
std::string PlanTable(const PlanConfig& config, const std::vector<StagePlan>& plans);

// A line for each stage, headed by names; bytes and seconds; what is not known is left empty.
std::string PlanCsv(const PlanConfig& config, const std::vector<StagePlan>& plans);

// Version 1 of "ringzero plan"; what is not known is null.
std::string PlanJson(const PlanConfig& config, const std::vector<StagePlan>& plans);

}  // namespace rz

#endif  // RINGZERO_TOOLS_PLAN_PLAN_REPORT_H_
