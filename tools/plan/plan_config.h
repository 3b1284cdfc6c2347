// What rz_plan is asked for: a model, ranks, and what each of them has.
#ifndef RINGZERO_TOOLS_PLAN_PLAN_CONFIG_H_
#define RINGZERO_TOOLS_PLAN_PLAN_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/kernels/optimizer_config.h"
#include "optimizer/stage_plan.h"
#include "tools/flag_set.h"

namespace rz {

struct PlanConfig {
  PlannedModel model;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  PlannedRoutes routes;
  MemoryBudget memory;      // of a rank
  int64_t activations = 0;  // of it, what is not for model states; less than `memory`
  PlannedMachine machine;
  std::string unit = "auto";  // of memory and wire, as ChooseUnit takes it
  bool each_state = false;    // whether the optimizer's states are shown one by one, too
  std::string csv_path, json_path;

  // What is left for model states.
  MemoryBudget budget() const {
    return memory ? MemoryBudget(*memory - activations) : MemoryBudget();
  }
};

class PlanFlags {
 public:
  void Declare(FlagSet* flags);

  //   InvalidArgument  --params or --ranks missing, or a value that cannot be; the message says
  //                    which flag, and what it takes
  absl::StatusOr<PlanConfig> Read(const FlagSet& flags) const;

 private:
  absl::Status ReadModel(const FlagSet& flags, PlanConfig* config) const;
  absl::Status ReadMachine(const FlagSet& flags, PlanConfig* config) const;
  absl::Status ReadRoutes(PlanConfig* config) const;

  std::string params_;
  int64_t ranks_ = 0;
  int64_t shard_group_ = 0;
  std::string dtype_ = "bf16";
  std::string optimizer_ = "AdamW";
  double momentum_ = 0;
  int64_t memory_ = 0;
  int64_t bandwidth_ = 0;
  int64_t flops_ = 0;
  int64_t tokens_ = 4096;
  std::string numeric_ = "deterministic";
  std::string algorithms_ = "all_reduce:pairwise,reduce_scatter:pairwise";
  PlanConfig values_;
};

// A number of parameters: "124475904", "7.5e9", and with K, M, G or B (10^9) and T.
//   InvalidArgument  none of these, no whole number, or not from 1 to kMaxPlannedParameters
absl::StatusOr<int64_t> ParseParameterCount(const std::string& text);

}  // namespace rz

#endif  // RINGZERO_TOOLS_PLAN_PLAN_CONFIG_H_
