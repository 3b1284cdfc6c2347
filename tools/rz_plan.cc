// rz_plan: which ZeRO stage for a model on so many ranks? By the formulas that rz_train compares
// its measured memory and its counted bytes with. Nothing is allocated and nobody is spoken to.
#include <iostream>
#include <string>
#include <vector>

#include "runtime/base/status_macros.h"
#include "tools/bench/result_files.h"
#include "tools/exit_code.h"
#include "tools/flag_set.h"
#include "tools/plan/plan_advice.h"
#include "tools/plan/plan_config.h"
#include "tools/plan/plan_report.h"

namespace rz {
namespace {

int Fail(const absl::Status& status) {
  std::cerr << "rz_plan: " << status.message() << "\n";
  return kExitFailure;
}

absl::Status WriteTo(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  const std::string free = FreePath(path);
  RZ_RETURN_IF_ERROR(WriteFile(free, text));
  std::cout << "written: " << free << "\n";
  return absl::OkStatus();
}

absl::Status WriteFiles(const PlanConfig& config, const std::vector<StagePlan>& plans) {
  RZ_RETURN_IF_ERROR(WriteTo(config.csv_path, PlanCsv(config, plans)));
  return WriteTo(config.json_path, PlanJson(config, plans));
}

int Main(int argc, char** argv) {
  FlagSet flags("rz_plan", "says what each ZeRO stage costs a model, and which to take");
  PlanFlags plan_flags;
  plan_flags.Declare(&flags);
  flags.Description(
      "Memory and traffic of a rank by closed formulas, the same that rz_train compares its\n"
      "measurements with; with --bandwidth and --flops the time of a step; with --memory what\n"
      "fits. Nothing is run.");
  flags.Example("rz_plan --params 7.5G --ranks 64");
  flags.Example("rz_plan --params 7.5G --ranks 64 --memory 80G --activations 20G");
  flags.Example(
      "rz_plan --params 7.5G --ranks 64 --memory 40G --bandwidth 25G --flops 150T --tokens 8192");
  flags.Example(
      "rz_plan --params 124475904 --ranks 8 --states --unit MiB --csv plan.csv --json plan.json");
  flags.ParseOrExit(argc, argv);
  const absl::StatusOr<PlanConfig> config = plan_flags.Read(flags);
  if (!config.ok()) flags.UsageError(std::string(config.status().message()));
  const absl::StatusOr<std::vector<StagePlan>> plans = PlanAllStages(*config);
  if (!plans.ok()) return Fail(plans.status());
  for (const std::string& path : {config->csv_path, config->json_path}) {
    if (path.empty()) continue;
    if (const absl::Status status = CheckCreatable(path); !status.ok()) return Fail(status);
  }
  std::cout << PlanTable(*config, *plans) << PlanAdvice(*config, *plans) << "\n";
  if (const absl::Status status = WriteFiles(*config, *plans); !status.ok()) return Fail(status);
  flags.ExitWith(kExitOk);
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) { return rz::Main(argc, argv); }
