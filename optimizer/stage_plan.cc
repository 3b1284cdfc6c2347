#include "optimizer/stage_plan.h"

#include <algorithm>
#include <limits>

#include "absl/numeric/int128.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr double kFlopsPerParameterAndToken = 6;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Elements of parameters that a step gathers.
int64_t GatheredElements(ZeroStage stage, int64_t elements) {
  if (stage == ZeroStage::kDdp) return 0;
  return stage == ZeroStage::kThree ? 2 * elements : elements;
}

}  // namespace

absl::StatusOr<StagePlan> PlanStage(const PlannedModel& model, ZeroStage stage,
                                    const PlannedRoutes& routes) {
  StagePlan plan;
  const bool whole = stage == ZeroStage::kDdp || stage == ZeroStage::kNaive;
  const int sharing = whole || model.group_size == 0 ? model.world : model.group_size;
  plan.shape = {.parameter_elements = model.parameters,
                .world = sharing,
                .groups = model.world / sharing,
                .stage = stage,
                .dtype = model.dtype,
                .optimizer_states = model.optimizer_states};
  const int64_t elements = RoundUp(model.parameters, model.world);
  RZ_ASSIGN_OR_RETURN(plan.wire,
                      PlanWire({.stage = stage,
                                .world = sharing,
                                .groups = plan.shape.groups,
                                .gradient_dtype = model.dtype,
                                .reduced_elements = elements,
                                .gathered_elements = GatheredElements(stage, elements)},
                               {.reduce = whole ? routes.all_reduce : routes.reduce_scatter,
                                .gather = routes.all_gather,
                                .replicas = routes.all_reduce,
                                .control = routes.all_gather}));
  return plan;
}

int64_t LargestModel(const ModelShape& shape, int64_t bytes) {
  ModelShape one = shape;
  one.parameter_elements = 1;
  const ByteShare each = ModelStateFormula(one);
  const absl::int128 parameters = absl::int128(bytes) * each.parts / each.total;
  return static_cast<int64_t>(
      std::min<absl::int128>(parameters, std::numeric_limits<int64_t>::max()));
}

int64_t RanksNeeded(const ModelShape& shape, int64_t bytes) {
  ModelShape whole = shape;
  whole.stage = ZeroStage::kDdp;
  const int64_t total = ModelStateFormula(whole).total;
  return total / bytes + (total % bytes == 0 ? 0 : 1);
}

bool Fits(const StagePlan& plan, MemoryBudget budget) {
  const ByteShare memory = plan.memory();
  // total / parts <= budget, without a remainder lost or a product overflowing.
  return !budget || memory.total / memory.parts < *budget ||
         (memory.total / memory.parts == *budget && memory.total % memory.parts == 0);
}

std::optional<ZeroStage> Recommend(absl::Span<const StagePlan> plans, MemoryBudget budget) {
  for (const StagePlan& plan : plans) {
    const ZeroStage stage = plan.shape.stage;
    if (stage == ZeroStage::kNaive ||
        (stage == ZeroStage::kDdp) != (plan.shape.world * plan.shape.groups == 1)) {
      continue;
    }
    if (Fits(plan, budget)) return stage;
  }
  return std::nullopt;
}

std::optional<absl::Duration> StepTime::apart() const {
  if (!compute || !communication) return std::nullopt;
  return *compute + *communication;
}

std::optional<absl::Duration> StepTime::overlapped() const {
  if (!compute || !communication) return std::nullopt;
  return std::max(*compute, *communication);
}

StepTime PredictStep(const StagePlan& plan, const PlannedMachine& machine) {
  StepTime time;
  if (machine.flops) {
    time.compute = absl::Seconds(kFlopsPerParameterAndToken *
                                 static_cast<double>(plan.shape.parameter_elements) *
                                 static_cast<double>(machine.tokens) / *machine.flops);
  }
  if (machine.bandwidth) {
    time.communication =
        absl::Seconds(static_cast<double>(plan.wire.payload_bytes()) / *machine.bandwidth);
  }
  return time;
}

}  // namespace rz
