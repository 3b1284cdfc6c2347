#include "optimizer/zero_optimizer_impl.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/model_shape.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// Within a group. Of several groups each sums what it has of the mean: no sum is larger than that,
// and everything is divided once, by all ranks.
ReduceOp ReductionOf(const ZeroConfig& config, int groups) {
  if (config.reduction == GradientReduction::kSum) return ReduceOp::kSum;
  return groups == 1 ? ReduceOp::kAvg : ReduceOp::kPremulSum;
}

}  // namespace

ZeroOptimizer::Impl::Impl(ShardGroups ranks, const ZeroConfig& config, FlatLayout layout,
                          Partition partition, ModelState state, OptimizerKernel kernel)
    : ranks_(std::move(ranks)),
      communicator_(ranks_.all()),
      progress_(communicator_),
      config_(config),
      layout_(std::move(layout)),
      groups_(layout_),
      partition_(std::move(partition)),
      state_(std::move(state)),
      timeline_(config.clock),
      units_(ranks_.shard(), &layout_, &partition_, &config_, &state_, &timeline_),
      policy_(MakeStagePolicy(config, {.communicator = ranks_.shard(),
                                       .partition = &partition_,
                                       .state = &state_,
                                       .units = &units_,
                                       .groups = &groups_,
                                       .timeline = &timeline_,
                                       .dtype = config.dtype,
                                       .gradient_dtype = GradientDType(config),
                                       .applied_dtype = AppliedGradientDType(config),
                                       .op = ReductionOf(config, ranks_.group_count()),
                                       .premul = 1.0 / communicator_->world_size(),
                                       .accumulates_shard = AccumulatesShards(config),
                                       .kernel = kernel})),
      broadcast_(communicator_, &layout_, &partition_, &config_, policy_.get()),
      reducer_(&ranks_, &layout_, &partition_, &config_, &state_, policy_.get(), &timeline_),
      deferred_(ranks_.shard(), &timeline_, layout_.unit_count(),
                static_cast<size_t>(partition_.bucket_count())),
      pipeline_(&ranks_, &layout_, &partition_, &config_, policy_.get(), &reducer_, &deferred_,
                &timeline_),
      learning_rates_(config_.groups.size()) {}

absl::Status ZeroOptimizer::Impl::Prepare() {
  RZ_RETURN_IF_ERROR(units_.AllocatePersistent());
  RZ_RETURN_IF_ERROR(reducer_.Allocate());
  return progress_.Start(config_);
}

absl::Status ZeroOptimizer::Impl::StartInitialize(Initializer initializer) {
  RZ_RETURN_IF_ERROR(CheckIdle());
  if (reducer_.has_begun()) {
    return absl::FailedPreconditionError(
        "gradients of a step have been announced; take the step before Initialize");
  }
  RZ_RETURN_IF_ERROR(deferred_.AwaitAll());
  RZ_RETURN_IF_ERROR(InvalidateUnits());
  RZ_RETURN_IF_ERROR(AbortUnlessRoom(broadcast_.Start(std::move(initializer))));
  units_.SetPersistent(/*stale=*/false);
  steps_taken_ = 0;
  reducer_.Reset();
  pipeline_.Reset();
  // Where there is no formula, gathers count with the step behind whose forward they go.
  const absl::StatusOr<WirePlan> wire = ExpectedWire();
  pipeline_.set_deferred_bytes(wire.ok() ? wire->gather_bytes : 0);
  for (const Buffer& state : state_.optimizer) std::ranges::fill(state.bytes(), std::byte{0});
  return absl::OkStatus();
}

absl::Status ZeroOptimizer::Impl::Resume(int64_t steps) {
  RZ_RETURN_IF_ERROR(CheckReady());
  if (steps < 0) return absl::InvalidArgumentError(absl::StrCat("steps taken: ", steps));
  if (reducer_.has_begun()) {
    return absl::FailedPreconditionError(
        "gradients of a step have been announced; take the step before Resume");
  }
  RZ_RETURN_IF_ERROR(InvalidateUnits());
  units_.SetPersistent(/*stale=*/true);
  pipeline_.Reset();
  steps_taken_ = steps;
  return absl::OkStatus();
}

absl::Status ZeroOptimizer::Impl::StartStep(const StepOptions& options) {
  RZ_RETURN_IF_ERROR(AwaitReady());
  RZ_RETURN_IF_ERROR(
      SetLearningRates(options, config_, steps_taken_, absl::MakeSpan(learning_rates_)));
  RZ_RETURN_IF_ERROR(InvalidateUnits());
  pipeline_.Start(steps_taken_, learning_rates_);
  return absl::OkStatus();
}

absl::Status ZeroOptimizer::Impl::StartAdd(size_t index, const void* values, size_t count,
                                           DType dtype) {
  RZ_RETURN_IF_ERROR(AwaitReady());
  if (index < layout_.size() && static_cast<int64_t>(count) != layout_.range(index).count) {
    return absl::InvalidArgumentError(absl::StrCat("the gradient of '", layout_.spec(index).name,
                                                   "' has ", count, " elements; the parameter has ",
                                                   layout_.range(index).count));
  }
  RZ_RETURN_IF_ERROR(reducer_.StartAdd(index, values, dtype));
  pipeline_.BeginWire();
  return absl::OkStatus();
}

absl::Status ZeroOptimizer::Impl::StartEndMicroStep() {
  RZ_RETURN_IF_ERROR(AwaitReady());
  if (reducer_.micro_step() + 1 >= config_.gradient_accumulation_steps) {
    return absl::FailedPreconditionError(absl::StrCat("micro-step ", reducer_.micro_step() + 1,
                                                      " of ", config_.gradient_accumulation_steps,
                                                      " ends with Step"));
  }
  pipeline_.BeginWire();
  reducer_.CloseAll(/*last=*/false);
  ending_micro_step_ = true;
  return absl::OkStatus();
}

absl::Status ZeroOptimizer::Impl::StartGather(size_t unit, Pass pass) {
  RZ_RETURN_IF_ERROR(CheckReady());
  if (pass == Pass::kEvaluation && config_.stage == ZeroStage::kThree && pipeline_.has_wire()) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit ", unit,
                     " is gathered for evaluation within a step; evaluate before "
                     "its first forward pass or after Step"));
  }
  RZ_RETURN_IF_ERROR(AbortUnlessRoom(units_.Reserve(unit)));
  if (pass != Pass::kEvaluation) pipeline_.BeginWire();
  return units_.Start(unit);
}

// All ranks start the same: what is left out follows from the config, and not from when gathers
// end.
void ZeroOptimizer::Impl::Prefetch(size_t unit, Pass pass) {
  const size_t turn = layout_.unit_count();
  const size_t end = pass == Pass::kEvaluation ? turn : 2 * turn;
  int64_t room = config_.prefetch_bucket_size;
  for (size_t at = (pass == Pass::kBackward ? 2 * turn - 1 - unit : unit) + 1; at < end; ++at) {
    const size_t next = at < turn ? at : 2 * turn - 1 - at;
    const Pass use = at < turn ? pass : Pass::kBackward;
    if (units_.IsHereFor(next, use)) continue;
    const bool is_before_its_release = use != pass && next >= unit;
    room -= layout_.unit(next).elements();
    if (is_before_its_release || room < 0 || !StartGather(next, use).ok()) return;
  }
}

absl::Status ZeroOptimizer::Impl::Gather(size_t unit, Pass pass) {
  const Communicator::Turn turn(communicator_);
  RZ_RETURN_IF_ERROR(StartGather(unit, pass));
  const ParamUnit& parameters = layout_.unit(unit);
  for (size_t i = parameters.first; i < parameters.first + parameters.count; ++i) {
    RZ_RETURN_IF_ERROR(AwaitParameter(i));
  }
  return AwaitUnit(unit);
}

absl::Status ZeroOptimizer::Impl::AwaitUnit(size_t unit) {
  if (units_.IsWhole(unit)) return ranks_.status();
  const StepSection waiting(&timeline_, StepPart::kCommunication);
  while (!units_.IsWhole(unit)) {
    MoveReductions();
    RZ_RETURN_IF_ERROR(PollUnits());
    // Its status is seen by the next Poll.
    if (Operation* operation = units_.awaited(unit)) (void)operation->Wait();
  }
  return ranks_.status();
}

absl::Status ZeroOptimizer::Impl::InvalidateUnits() {
  RZ_RETURN_IF_ERROR(PollUnits());
  for (size_t unit = 0; unit < layout_.unit_count(); ++unit) {
    if (units_.IsOnItsWay(unit)) RZ_RETURN_IF_ERROR(AwaitUnit(unit));
  }
  return units_.Invalidate();
}

bool ZeroOptimizer::Impl::IsGathered(size_t unit) const {
  const ParamUnit& parameters = layout_.unit(unit);
  for (size_t i = parameters.first; i < parameters.first + parameters.count; ++i) {
    if (deferred_.IsPending(layout_.storage_unit(i))) return false;
  }
  return units_.IsWhole(unit);
}

absl::Status ZeroOptimizer::Impl::Release(size_t unit, Pass pass) {
  RZ_RETURN_IF_ERROR(CheckReady());
  RZ_RETURN_IF_ERROR(PollUnits());
  RZ_RETURN_IF_ERROR(units_.Release(unit, pass));
  if (pass != Pass::kBackward) return absl::OkStatus();
  RZ_RETURN_IF_ERROR(AwaitReady());
  pipeline_.BeginWire();
  return reducer_.CloseUnit(unit);
}

bool ZeroOptimizer::Impl::Poll() {
  if (broadcast_.running()) return broadcast_.Poll();
  if (pipeline_.running()) {
    if (!pipeline_.Poll()) return false;
    if (pipeline_.result().ok()) steps_taken_ = pipeline_.result()->step;
    return true;
  }
  // A failure is the communicator's, and seen by the next call.
  (void)deferred_.Poll();
  (void)PollUnits();
  MoveReductions();
  if (!reducer_.result().ok()) ending_micro_step_ = false;
  if (ending_micro_step_ && reducer_.done()) {
    reducer_.EndMicroStep(/*last=*/false);
    ending_micro_step_ = false;
  }
  return !ending_micro_step_ && !reducer_.adding();
}

void ZeroOptimizer::Impl::Run() {
  // A step computes between its collectives, and lets the thread in meanwhile.
  std::optional<Communicator::Turn> turn;
  if (!pipeline_.running()) turn.emplace(communicator_);
  while (!Poll()) {
    Operation* operation = broadcast_.running()  ? broadcast_.awaited()
                           : pipeline_.running() ? pipeline_.awaited()
                                                 : reducer_.awaited();
    if (operation == nullptr) continue;
    const StepSection waiting(&timeline_, StepPart::kCommunication);
    // Its status is seen by the next Poll.
    (void)operation->Wait();
  }
}

void ZeroOptimizer::Impl::Abandon() {
  // A step that was taken on all ranks has started them on all.
  if (ranks_.status().ok()) (void)deferred_.AwaitAll();
  broadcast_.Abandon();
  units_.Abandon();
  pipeline_.Abandon();
  deferred_.Abandon();
}

MemoryReport ZeroOptimizer::Impl::Memory() const {
  return MeasureMemory(ShapeOf(layout_, partition_, config_, ranks_.group_count()),
                       *config_.ledger);
}

absl::StatusOr<WireRoutes> ZeroOptimizer::Impl::Routes() const {
  const bool whole = config_.stage == ZeroStage::kDdp || config_.stage == ZeroStage::kNaive;
  const Collective reduction = whole ? Collective::kAllReduce : Collective::kReduceScatter;
  WireRoutes routes;
  const Communicator& group = *ranks_.shard();
  RZ_ASSIGN_OR_RETURN(routes.reduce, group.CarriageOf(reduction, GradientDType(config_)));
  RZ_ASSIGN_OR_RETURN(routes.gather, group.CarriageOf(Collective::kAllGather, config_.dtype));
  if (const Communicator* replica = ranks_.replica(); replica != nullptr) {
    RZ_ASSIGN_OR_RETURN(routes.replicas,
                        replica->CarriageOf(Collective::kAllReduce, GradientDType(config_)));
  }
  RZ_ASSIGN_OR_RETURN(routes.control,
                      communicator_->CarriageOf(Collective::kAllGather, DType::kInt64));
  return routes;
}

absl::StatusOr<WirePlan> ZeroOptimizer::Impl::ExpectedWire() const {
  RZ_ASSIGN_OR_RETURN(const WireRoutes routes, Routes());
  const int64_t micro_steps = config_.gradient_accumulation_steps;
  return PlanWire({.stage = config_.stage,
                   .world = partition_.world(),
                   .groups = ranks_.group_count(),
                   .gradient_dtype = GradientDType(config_),
                   .reduced_elements = partition_.padded_elements() *
                                       (AccumulatesShards(config_) ? micro_steps : 1),
                   .gathered_elements = units_.ElementsGatheredAStep(micro_steps)},
                  routes);
}

absl::Status ZeroOptimizer::Impl::CheckIdle() const {
  const char* what = broadcast_.running()                      ? "an initialization"
                     : pipeline_.running()                     ? "a step"
                     : ending_micro_step_ || reducer_.adding() ? "a gradient"
                                                               : nullptr;
  if (what != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", communicator_->rank().value(), " has ", what,
                     " under way; poll it to its end before the next activity"));
  }
  return ranks_.status();
}

absl::Status ZeroOptimizer::Impl::CheckReady() const {
  RZ_RETURN_IF_ERROR(CheckIdle());
  return broadcast_.result();
}

absl::Status ZeroOptimizer::Impl::AwaitReady() {
  RZ_RETURN_IF_ERROR(CheckReady());
  return deferred_.AwaitAll();
}

absl::Status ZeroOptimizer::Impl::AbortUnlessRoom(absl::Status status) const {
  if (absl::IsResourceExhausted(status)) ranks_.Abort(status);
  return status;
}

absl::Status ZeroOptimizer::Impl::PollUnits() {
  absl::Status status = units_.Poll();
  if (!status.ok()) ranks_.Abort(status);
  return status;
}

void ZeroOptimizer::Impl::MoveReductions() {
  while (reducer_.Advance()) {
  }
}

}  // namespace rz
