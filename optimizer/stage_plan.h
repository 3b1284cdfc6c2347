// What a stage would cost a model, before anything is allocated: memory and wire by the formulas
// that the measured table is compared with (memory_report.h, wire_plan.h), and from them what fits,
// how many ranks it takes, how long a step lasts and which stage to take. Pure.
#ifndef RINGZERO_OPTIMIZER_STAGE_PLAN_H_
#define RINGZERO_OPTIMIZER_STAGE_PLAN_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "collectives/selection.h"
#include "optimizer/memory_report.h"
#include "optimizer/wire_plan.h"
#include "optimizer/zero_config.h"
#include "runtime/base/dtype.h"

namespace rz {

inline constexpr std::array<ZeroStage, 5> kPlannedStages = {
    ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree};

// Exact byte counts of so many parameters on so many ranks fit 63 bits.
inline constexpr int64_t kMaxPlannedParameters = 10'000'000'000'000;
inline constexpr int kMaxPlannedRanks = 65536;

struct PlannedModel {
  int64_t parameters = 1;  // from 1 to kMaxPlannedParameters
  int world = 1;           // from 1 to kMaxPlannedRanks
  int group_size = 0;      // of ranks that shard a copy in stages 1, 2 and 3; 0: all
  DType dtype = DType::kBFloat16;
  int optimizer_states = 2;
};

// How the collectives of a step would go.
struct PlannedRoutes {
  Carriage all_reduce;
  Carriage reduce_scatter;
  Carriage all_gather;
};

struct StagePlan {
  ModelShape shape;  // without padding, which depends on the parameters' shapes
  WirePlan wire;     // of a step of one micro-step; stage 3 gathers for forward and for backward

  ByteShare memory() const { return ModelStateFormula(shape); }
};

//   Unimplemented  as PlanWire
absl::StatusOr<StagePlan> PlanStage(const PlannedModel& model, ZeroStage stage,
                                    const PlannedRoutes& routes);

// Parameters whose model states take at most `bytes` of a rank, all else as in `shape`.
int64_t LargestModel(const ModelShape& shape, int64_t bytes);

// Ranks on which stage 3 holds such a model in `bytes` of each; `bytes` is positive.
int64_t RanksNeeded(const ModelShape& shape, int64_t bytes);

// Bytes of memory a rank has for its model states; none: not known.
using MemoryBudget = std::optional<int64_t>;

bool Fits(const StagePlan& plan, MemoryBudget budget);

// The least sharding that fits among ddp (for a rank alone), 1, 2 and 3, because each of them sends
// no fewer bytes than the one before. Beside others, ddp is never the one: stage 1 sends as much
// and holds less; nor is naive, which holds as much as stage 1 and sends more. Nothing where none
// fits. `plans` has all of kPlannedStages, in their order.
std::optional<ZeroStage> Recommend(absl::Span<const StagePlan> plans, MemoryBudget budget);

// What a rank can do.
struct PlannedMachine {
  // Floating-point operations a second, of forward and backward.
  std::optional<double> flops = std::nullopt;
  // Bytes/s it sends, while it receives as many.
  std::optional<double> bandwidth = std::nullopt;
  int64_t tokens = 1;  // (or samples) of a rank in a step
};

// Forward takes 2 floating-point operations a parameter and token, backward twice that (Kaplan et
// al., "Scaling Laws for Neural Language Models", 2020, section 2.1). Latencies, the optimizer's
// own time and what attention takes beside the parameters are left out.
struct StepTime {
  std::optional<absl::Duration> compute;        // where flops are known
  std::optional<absl::Duration> communication;  // where the bandwidth is

  // Nothing of the communication hidden behind computing, and as much as there is computing for.
  std::optional<absl::Duration> apart() const;
  std::optional<absl::Duration> overlapped() const;
};

StepTime PredictStep(const StagePlan& plan, const PlannedMachine& machine);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STAGE_PLAN_H_
