// A step:
//   1. Reduce. The gradients of all ranks become one, bucket by bucket; those that were announced
//      early are under way or done already (gradient_reducer.h). Of each bucket this rank adds the
//      squares of its own chunks in fp64: within a chunk in the kernel's fixed order, then tile
//      after tile.
//   2. Control. All ranks exchange their votes (sum of squares, non-finite elements, plan, step,
//      learning rate). Everyone adds the squares in the order of ranks and decides from the same
//      bytes. This is the commit point: nothing has changed before it. A gradient that is not
//      finite ends the step here, on all ranks alike, and lowers a dynamic loss scale.
//   3. Update. Bucket by bucket: the optimizer on what this rank owns, with unscaling and clipping
//      as one factor of the gradient, then the new parameters are gathered while the next bucket is
//      updated. With gather_behind_forward the step ends there, and gathers end behind what
//      follows (deferred_gathers.h).
// Source of the sharded step: Rajbhandari et al., "ZeRO", 2019, section 5.
#include "optimizer/step_pipeline.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/step_trace.h"

namespace rz {
namespace {

// As PyTorch's and DeepSpeed's.
constexpr double kClippingEpsilon = 1e-6;

absl::Status TooManySkips(int64_t skipped, const StepReport& report) {
  return absl::OutOfRangeError(absl::StrCat(
      skipped, " steps in a row were skipped, after ", report.step, " steps taken; in the last, ",
      DescribeNonFinite(report),
      ". Look for the cause in that rank's samples and in the model, set a lower learning rate, or "
      "let more of them be skipped with max_skipped_steps (0: any number)"));
}

}  // namespace

StepPipeline::StepPipeline(const ShardGroups* ranks, const FlatLayout* layout,
                           const Partition* partition, const ZeroConfig* config,
                           StagePolicy* policy, GradientReducer* reducer, DeferredGathers* deferred,
                           StepTimeline* timeline)
    : ranks_(ranks),
      communicator_(ranks->all()),
      layout_(layout),
      partition_(partition),
      config_(config),
      policy_(policy),
      reducer_(reducer),
      deferred_(deferred),
      timeline_(timeline),
      plan_hash_(PlanHash(*layout, *partition, *config)),
      group_hash_(GroupHash(*layout, *config)),
      scaler_(config->loss_scale),
      result_(absl::FailedPreconditionError("no step has been taken yet")),
      operations_(static_cast<size_t>(partition->bucket_count())),
      votes_(static_cast<size_t>(communicator_->world_size())),
      learning_rates_(config->groups.size()),
      step_(config->groups.size()) {
  for (const ParameterGroup& group : config->groups) {
    optimizers_.push_back(OptimizerOf(config->optimizer, group));
  }
}

void StepPipeline::Reset() {
  scaler_ = LossScaler(config_->loss_scale);
  skipped_in_a_row_ = 0;
  payload_before_.reset();
  gathered_due_ = 0;
}

void StepPipeline::BeginWire() {
  if (!payload_before_) {
    // A gather under way must not send between one count and the next.
    const Communicator::Turn turn(communicator_);
    payload_before_ = ranks_->payload();
    payload_between_before_ = ranks_->payload_between();
    gathered_at_begin_ = Gathered();
  }
  timeline_->Begin();
}

void StepPipeline::Start(int64_t steps_taken, absl::Span<const double> learning_rates) {
  phase_ = Phase::kReduce;
  report_ = StepReport();
  started_ = completed_ = 0;
  vote_ = StepVote();
  vote_.plan_hash = plan_hash_;
  vote_.step = steps_taken;
  std::copy(learning_rates.begin(), learning_rates.end(), learning_rates_.begin());
  vote_.learning_rate = learning_rates_[0];
  vote_.group_hash = GroupHash(group_hash_, learning_rates_);
  vote_.loss_scale = scaler_.scale();
  BeginWire();
  // From here to the end the thread waits for collectives wherever it does not compute.
  timeline_->Enter(StepPart::kCommunication);
  reducer_->CloseAll(/*last=*/true);
}

bool StepPipeline::Poll() {
  bool moved = true;
  while (moved) {
    switch (phase_) {
      case Phase::kIdle:
        return true;
      case Phase::kReduce:
        moved = AdvanceReduce();
        break;
      case Phase::kControl:
        moved = AdvanceControl();
        break;
      case Phase::kUpdate:
        moved = AdvanceUpdate();
        break;
    }
  }
  return false;
}

Operation* StepPipeline::awaited() {
  if (phase_ == Phase::kReduce) return reducer_->awaited();
  if (phase_ == Phase::kControl) return &*control_;
  if (phase_ == Phase::kIdle || completed_ == started_) return nullptr;
  std::optional<Operation>& operation = operations_[static_cast<size_t>(completed_)];
  return operation ? &*operation : nullptr;
}

bool StepPipeline::AdvanceReduce() {
  if (reducer_->Advance()) return true;
  if (!reducer_->result().ok()) return Fail(reducer_->result());
  if (const std::optional<Bucket> bucket = reducer_->TakeReduced()) {
    Inspect(*bucket);
    return true;
  }
  if (!reducer_->done()) return false;
  vote_.own_non_finite = reducer_->first_non_finite();
  reducer_->EndMicroStep(/*last=*/true);
  return StartControl();
}

void StepPipeline::Inspect(const Bucket& bucket) {
  if (!config_->inspect_gradients) return;
  const StepSection computing(timeline_, StepPart::kOptimizer, reducer_->PlaceOf(bucket));
  for (int64_t tile = bucket.first_tile; tile < bucket.first_tile + bucket.tile_count; ++tile) {
    const ChunkStats stats = policy_->Inspect(tile);
    vote_.sum_of_squares += stats.sum_of_squares;
    vote_.non_finite_count += stats.non_finite_count;
    vote_.first_non_finite = std::min(vote_.first_non_finite, stats.first_non_finite);
  }
}

void StepPipeline::SettleDeferred() {
  const int64_t missing = std::max<int64_t>(0, gathered_due_ - Gathered());
  *payload_before_ += Gathered() - gathered_at_begin_ + missing;
  gathered_due_ = 0;
}

bool StepPipeline::StartControl() {
  if (DefersGathers() && deferred_bytes_ > 0) SettleDeferred();
  payload_before_control_ = ranks_->payload();
  absl::StatusOr<Operation> operation = communicator_->StartAllGather(
      &vote_, votes_.data(), kVoteWords * communicator_->world_size(), DType::kInt64);
  if (!operation.ok()) return Fail(operation.status());
  control_ = *std::move(operation);
  timeline_->CollectiveBegan(TraceKind::kControl, {},
                             static_cast<int64_t>(votes_.size() * sizeof(StepVote)));
  phase_ = Phase::kControl;
  return true;
}

bool StepPipeline::AdvanceControl() {
  if (!control_->Poll()) return false;
  if (!control_->status().ok()) return Fail(control_->status());
  control_.reset();
  timeline_->CollectiveEnded(TraceKind::kControl, {});
  report_.control_bytes = ranks_->payload() - payload_before_control_;
  const absl::StatusOr<StepDecision> decision =
      Decide(votes_, static_cast<size_t>(partition_->world()));
  if (!decision.ok()) return Fail(decision.status());
  // The gradients were those of the loss times its scale.
  report_.norm = config_->inspect_gradients ? decision->norm / vote_.loss_scale
                                            : std::numeric_limits<double>::quiet_NaN();
  report_.clipped_norm = report_.norm;
  report_.non_finite_count = decision->non_finite_count;
  report_.skipped = !decision->take;
  report_.step = vote_.step + (decision->take ? 1 : 0);
  report_.learning_rate = vote_.learning_rate;
  report_.loss_scale = vote_.loss_scale;
  if (report_.skipped) return Skip(*decision);
  skipped_in_a_row_ = 0;
  if (absl::Status status = scaler_.Update(/*overflow=*/false); !status.ok()) return Fail(status);
  phase_ = Phase::kUpdate;
  started_ = completed_ = 0;
  gathered_before_ = Gathered();
  SetStep();
  return true;
}

bool StepPipeline::Skip(const StepDecision& decision) {
  const std::optional<size_t> parameter = layout_->Find(decision.first_non_finite);
  if (parameter) report_.first_non_finite_parameter = layout_->spec(*parameter).name;
  if (AnnouncesGradients(*config_)) report_.non_finite_cause = NonFiniteCause(votes_, *layout_);
  if (absl::Status status = scaler_.Update(/*overflow=*/true); !status.ok()) {
    return Fail(
        absl::Status(status.code(), absl::StrCat(status.message(), ". After ", report_.step,
                                                 " steps taken, ", DescribeNonFinite(report_))));
  }
  ++skipped_in_a_row_;
  const int64_t most = config_->max_skipped_steps;
  if (config_->loss_scale.dynamic || most == 0 || skipped_in_a_row_ < most) return Finish();
  return Fail(TooManySkips(skipped_in_a_row_, report_));
}

void StepPipeline::SetStep() {
  const double most = config_->gradient_clipping;
  double clip = 1;
  if (most > 0 && report_.norm > most) clip = most / (report_.norm + kClippingEpsilon);
  report_.clipped_norm = report_.norm * clip;
  for (size_t group = 0; group < step_.size(); ++group) {
    step_[group] = ConstantsOf(optimizers_[group], {.learning_rate = learning_rates_[group],
                                                    .step = report_.step,
                                                    .grad_scale = clip / vote_.loss_scale});
  }
}

bool StepPipeline::AdvanceUpdate() {
  if (started_ < partition_->bucket_count() && RoomInFlight()) {
    // Gathers that go on behind forward begin with what it uses first, which lies last.
    const bool defers = DefersGathers();
    const Bucket bucket =
        partition_->bucket(defers ? partition_->bucket_count() - 1 - started_ : started_);
    UpdateOwned(bucket);
    absl::StatusOr<std::optional<Operation>> operation = policy_->StartGather(bucket);
    if (!operation.ok()) return Fail(operation.status());
    if (operation->has_value()) {
      timeline_->CollectiveBegan(TraceKind::kGather, reducer_->PlaceOf(bucket),
                                 bucket.flat.count * static_cast<int64_t>(SizeOf(config_->dtype)));
    }
    if (defers && operation->has_value()) {
      deferred_->Add(**operation, reducer_->PlaceOf(bucket));
      operation->reset();
    }
    operations_[static_cast<size_t>(started_++)] = *std::move(operation);
    return true;
  }
  if (completed_ == partition_->bucket_count()) return Finish();
  std::optional<Operation>& operation = operations_[static_cast<size_t>(completed_)];
  if (operation && !operation->Poll()) return false;
  if (operation && !operation->status().ok()) return Fail(operation->status());
  if (operation) {
    timeline_->CollectiveEnded(TraceKind::kGather,
                               reducer_->PlaceOf(partition_->bucket(completed_)));
  }
  operation.reset();
  ++completed_;
  return true;
}

void StepPipeline::UpdateOwned(const Bucket& bucket) {
  const StepSection computing(timeline_, StepPart::kOptimizer, reducer_->PlaceOf(bucket));
  policy_->Update(bucket, step_);
}

bool StepPipeline::Finish() {
  report_.times = timeline_->End();
  const Communicator::Turn turn(communicator_);  // as in BeginWire
  report_.payload_bytes = ranks_->payload() - *payload_before_ - report_.control_bytes;
  report_.between_groups_bytes = ranks_->payload_between() - payload_between_before_;
  if (deferred_->pending()) {
    gathered_due_ = gathered_before_ + deferred_bytes_;
    report_.payload_bytes += gathered_due_ - Gathered();
  }
  payload_before_.reset();
  phase_ = Phase::kIdle;
  result_ = report_;
  return true;
}

bool StepPipeline::Fail(absl::Status status) {
  // The other ranks cannot finish a step that this one has left.
  ranks_->Abort(status);
  phase_ = Phase::kIdle;
  result_ = std::move(status);
  return true;
}

void StepPipeline::Abandon() {
  if (phase_ != Phase::kIdle || reducer_->awaited() != nullptr || !ranks_->status().ok()) {
    ranks_->Abort(absl::CancelledError("the optimizer was destroyed during a step"));
  }
  // After a failure too, operations of other buckets may still hold their memory.
  reducer_->Drain();
  for (std::optional<Operation>& operation : operations_) {
    while (operation && !operation->Poll()) {
    }
  }
  while (control_ && !control_->Poll()) {
  }
  phase_ = Phase::kIdle;
}

}  // namespace rz
