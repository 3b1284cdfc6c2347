// StepPipeline: one step of all stages, as a state machine that never waits.
//
// Threads: the optimizer's one owner. Allocates nothing once constructed, except for an error or a
// skipped step's parameter name.
#ifndef RINGZERO_OPTIMIZER_STEP_PIPELINE_H_
#define RINGZERO_OPTIMIZER_STEP_PIPELINE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/deferred_gathers.h"
#include "optimizer/gradient_reducer.h"
#include "optimizer/kernels/optimizer_config.h"
#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/partition.h"
#include "optimizer/loss_scaler.h"
#include "optimizer/shard_groups.h"
#include "optimizer/stage_policy.h"
#include "optimizer/step_control.h"
#include "optimizer/step_report.h"
#include "optimizer/step_timeline.h"
#include "optimizer/zero_config.h"

namespace rz {

class StepPipeline {
 public:
  // All arguments outlive the pipeline.
  StepPipeline(const ShardGroups* ranks, const FlatLayout* layout, const Partition* partition,
               const ZeroConfig* config, StagePolicy* policy, GradientReducer* reducer,
               DeferredGathers* deferred, StepTimeline* timeline);

  // The loss scale as at the start, and no step skipped. Requires that no step is under way.
  void Reset();

  // What the losses of the next step are to be multiplied by.
  double loss_scale() const { return scaler_.scale(); }

  // What is sent from here on, and the time that passes, is of the next step, unless that has begun
  // already.
  void BeginWire();
  // What the gathers of a step send that go on after its end. They are its bytes all the same; if
  // they have sent less when the next step ends its gradients, that one's are less by it.
  void set_deferred_bytes(int64_t bytes) { deferred_bytes_ = bytes; }
  bool has_wire() const { return payload_before_.has_value(); }

  // Begins a step after `steps_taken` others with a learning rate for each group. Requires that
  // none is under way.
  void Start(int64_t steps_taken, absl::Span<const double> learning_rates);

  // Moves the step as far as it goes without waiting; true when it has ended.
  bool Poll();

  bool running() const { return phase_ != Phase::kIdle; }

  // How the last step ended.
  const absl::StatusOr<StepReport>& result() const { return result_; }

  // The operation that Poll waits for; null where it waits for none.
  Operation* awaited();

  // Ends operations still under way by failing the communicator, so that their memory may go.
  void Abandon();

 private:
  enum class Phase { kIdle, kReduce, kControl, kUpdate };

  // Each makes one move; false where only waiting is left.
  bool AdvanceReduce();
  bool AdvanceControl();
  bool AdvanceUpdate();

  // Adds the bucket's chunks to this rank's vote.
  void Inspect(const Bucket& bucket);

  void SetStep();

  // The optimizer on what this rank owns of the bucket.
  void UpdateOwned(const Bucket& bucket);

  // Ends a step whose gradients are not finite.
  bool Skip(const StepDecision& decision);

  // Each true: the pipeline has moved.
  bool StartControl();
  bool Finish();
  bool Fail(absl::Status status);

  // Whether a step may end before its gathers. A program that waits for all ranks moves nothing
  // within its group (shard_groups.h).
  bool DefersGathers() const {
    return GathersBehindForward(*config_) && policy_->MayDeferGathers() &&
           ranks_->group_count() == 1;
  }

  // Takes out of this step's bytes what was gathered since it began: for the last step, or by the
  // program. The last step's gathers have ended.
  void SettleDeferred();

  bool RoomInFlight() const { return started_ - completed_ < config_->buckets_in_flight; }

  const ShardGroups* ranks_;
  Communicator* communicator_;  // of all ranks
  const FlatLayout* layout_;
  const Partition* partition_;
  const ZeroConfig* config_;
  StagePolicy* policy_;
  GradientReducer* reducer_;
  DeferredGathers* deferred_;
  StepTimeline* timeline_;
  uint64_t plan_hash_;
  uint64_t group_hash_;
  LossScaler scaler_;
  int64_t skipped_in_a_row_ = 0;

  Phase phase_ = Phase::kIdle;
  absl::StatusOr<StepReport> result_;
  StepReport report_;

  // Of the update's collectives, by bucket: those below started_ have been started, those below
  // completed_ are done and dealt with.
  std::vector<std::optional<Operation>> operations_;
  int64_t started_ = 0;
  int64_t completed_ = 0;

  std::vector<StepVote> votes_;  // [world]
  StepVote vote_;
  std::optional<Operation> control_;
  std::vector<OptimizerConfig> optimizers_;  // by group
  std::vector<double> learning_rates_;       // by group
  std::vector<StepConstants> step_;          // by group

  // Sent so far within the group, by all_gather.
  int64_t Gathered() const { return ranks_->shard()->wire_counters().all_gather; }

  std::optional<int64_t> payload_before_;
  int64_t payload_before_control_ = 0;
  int64_t deferred_bytes_ = 0;
  // By all_gather: before the step, before its gathers, and what those deferred come to.
  int64_t gathered_at_begin_ = 0;
  int64_t gathered_before_ = 0;
  int64_t gathered_due_ = 0;
  int64_t payload_between_before_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STEP_PIPELINE_H_
