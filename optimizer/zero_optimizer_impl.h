// What stands behind ZeroOptimizer: the parts of one rank's optimizer, and which of them a call
// moves, waits for or refuses. zero_optimizer.cc has how they are made, the blocking forms and the
// views.
//
// One activity at a time is under way: an initialization (ParameterBroadcast), a gradient or the
// end of a micro-step (GradientReducer), or a step (StepPipeline). Beside it go reductions of
// gradients announced before, gathers of units (GatheredUnits), and those that a step has left
// behind (DeferredGathers).
#ifndef RINGZERO_OPTIMIZER_ZERO_OPTIMIZER_IMPL_H_
#define RINGZERO_OPTIMIZER_ZERO_OPTIMIZER_IMPL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "optimizer/deferred_gathers.h"
#include "optimizer/gathered_units.h"
#include "optimizer/gradient_reducer.h"
#include "optimizer/kernels/optimizer_kernel.h"
#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/group_runs.h"
#include "optimizer/layout/partition.h"
#include "optimizer/memory_report.h"
#include "optimizer/model_state.h"
#include "optimizer/parameter_broadcast.h"
#include "optimizer/progress_hold.h"
#include "optimizer/shard_groups.h"
#include "optimizer/stage_policy.h"
#include "optimizer/step_options.h"
#include "optimizer/step_pipeline.h"
#include "optimizer/step_timeline.h"
#include "optimizer/wire_plan.h"
#include "optimizer/zero_config.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/dtype.h"

namespace rz {

// Calls of the same name as ZeroOptimizer's have its contract.
class ZeroOptimizer::Impl {
 public:
  Impl(ShardGroups ranks, const ZeroConfig& config, FlatLayout layout, Partition partition,
       ModelState state, OptimizerKernel kernel);

  // Allocates what a step needs, and starts the progress thread where there is to be one.
  absl::Status Prepare();

  absl::Status StartInitialize(Initializer initializer);
  absl::Status StartStep(const StepOptions& options);
  absl::Status StartAdd(size_t index, const void* values, size_t count, DType dtype);
  absl::Status StartEndMicroStep();
  bool Poll();

  // Polls to the end, sleeping in the operation that is waited for.
  void Run();

  absl::Status StartGather(size_t unit, Pass pass);
  void Prefetch(size_t unit, Pass pass);
  absl::Status Gather(size_t unit, Pass pass);
  bool IsGathered(size_t unit) const;
  absl::Status Release(size_t unit, Pass pass);

  // Where its values are still on the way.
  absl::Status AwaitParameter(size_t index) { return deferred_.Await(layout_.storage_unit(index)); }

  absl::Status Resume(int64_t steps);

  // Ends whatever is under way, so that its memory may go: by waiting for what a step has left
  // behind it, and by failing the communicators.
  void Abandon();

  MemoryReport Memory() const;
  absl::StatusOr<WireRoutes> Routes() const;
  absl::StatusOr<WirePlan> ExpectedWire() const;

  const FlatLayout& layout() const { return layout_; }
  const Partition& partition() const { return partition_; }
  const ZeroConfig& config() const { return config_; }
  const ModelState& state() const { return state_; }
  const GatheredUnits& units() const { return units_; }
  const GradientReducer& reducer() const { return reducer_; }
  const ParameterBroadcast& broadcast() const { return broadcast_; }
  const StepPipeline& pipeline() const { return pipeline_; }
  StepTimeline* timeline() { return &timeline_; }
  int64_t steps_taken() const { return steps_taken_; }
  double learning_rate(size_t group) const { return ScheduledRate(config_, group, steps_taken_); }

 private:
  absl::Status CheckIdle() const;
  // For what needs initialized parameters.
  absl::Status CheckReady() const;
  // For what writes over parameters that may still be on their way from here.
  absl::Status AwaitReady();
  // What fails in a group fails everywhere.
  absl::Status PollUnits();
  absl::Status AwaitUnit(size_t unit);
  // Lets go of all units, once those on their way are here: all ranks have started the same.
  absl::Status InvalidateUnits();
  // Where this rank had no memory: the others cannot go on with what it does not begin.
  absl::Status AbortUnlessRoom(absl::Status status) const;
  void MoveReductions();

  ShardGroups ranks_;
  Communicator* communicator_;  // of all ranks
  ProgressHold progress_;
  ZeroConfig config_;
  FlatLayout layout_;
  GroupRuns groups_;
  Partition partition_;
  ModelState state_;
  StepTimeline timeline_;
  GatheredUnits units_;
  std::unique_ptr<StagePolicy> policy_;
  ParameterBroadcast broadcast_;
  GradientReducer reducer_;
  DeferredGathers deferred_;
  StepPipeline pipeline_;
  std::vector<double> learning_rates_;  // of the step that starts, by group
  bool ending_micro_step_ = false;
  int64_t steps_taken_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_ZERO_OPTIMIZER_IMPL_H_
