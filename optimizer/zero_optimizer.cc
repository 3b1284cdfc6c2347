#include "optimizer/zero_optimizer.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/deferred_gathers.h"
#include "optimizer/kernels/optimizer_kernel.h"
#include "optimizer/layout/group_runs.h"
#include "optimizer/model_shape.h"
#include "optimizer/model_state.h"
#include "optimizer/parameter_broadcast.h"
#include "optimizer/progress_hold.h"
#include "optimizer/shard_groups.h"
#include "optimizer/stage_policy.h"
#include "optimizer/step_pipeline.h"
#include "optimizer/step_timeline.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace rz {

double GradientScale(int world_size, int64_t samples_of_all_ranks) {
  return static_cast<double>(world_size) / static_cast<double>(samples_of_all_ranks);
}

namespace {

// Within a group. Of several groups each sums what it has of the mean: no sum is larger than that,
// and everything is divided once, by all ranks.
ReduceOp ReductionOf(const ZeroConfig& config, int groups) {
  if (config.reduction == GradientReduction::kSum) return ReduceOp::kSum;
  return groups == 1 ? ReduceOp::kAvg : ReduceOp::kPremulSum;
}

}  // namespace

class ZeroOptimizer::Impl {
 public:
  Impl(ShardGroups ranks, ZeroConfig config, FlatLayout layout, Partition partition,
       ModelState state, OptimizerKernel kernel)
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

  absl::Status Prepare() {
    RZ_RETURN_IF_ERROR(units_.AllocatePersistent());
    RZ_RETURN_IF_ERROR(reducer_.Allocate());
    return progress_.Start(config_);
  }

  absl::Status StartInitialize(Initializer initializer) {
    RZ_RETURN_IF_ERROR(CheckIdle());
    if (reducer_.has_begun()) {
      return absl::FailedPreconditionError(
          "gradients of a step have been announced; take the step before Initialize");
    }
    RZ_RETURN_IF_ERROR(deferred_.AwaitAll());
    RZ_RETURN_IF_ERROR(units_.Invalidate());
    RZ_RETURN_IF_ERROR(broadcast_.Start(std::move(initializer)));
    steps_taken_ = 0;
    reducer_.Reset();
    pipeline_.Reset();
    // Where there is no formula, gathers count with the step behind whose forward they go.
    const absl::StatusOr<WirePlan> wire = ExpectedWire();
    pipeline_.set_deferred_bytes(wire.ok() ? wire->gather_bytes : 0);
    for (const Buffer& state : state_.optimizer) std::ranges::fill(state.bytes(), std::byte{0});
    return absl::OkStatus();
  }

  absl::Status Resume(int64_t steps) {
    RZ_RETURN_IF_ERROR(CheckReady());
    if (steps < 0) return absl::InvalidArgumentError(absl::StrCat("steps taken: ", steps));
    if (reducer_.has_begun()) {
      return absl::FailedPreconditionError(
          "gradients of a step have been announced; take the step before Resume");
    }
    RZ_RETURN_IF_ERROR(units_.Invalidate());
    steps_taken_ = steps;
    return absl::OkStatus();
  }

  absl::Status StartStep(const StepOptions& options) {
    RZ_RETURN_IF_ERROR(AwaitReady());
    RZ_RETURN_IF_ERROR(
        SetLearningRates(options, config_, steps_taken_, absl::MakeSpan(learning_rates_)));
    RZ_RETURN_IF_ERROR(PollUnits());
    RZ_RETURN_IF_ERROR(units_.Invalidate());
    pipeline_.Start(steps_taken_, learning_rates_);
    return absl::OkStatus();
  }

  absl::Status StartAdd(size_t index, const void* values, size_t count, DType dtype) {
    RZ_RETURN_IF_ERROR(AwaitReady());
    if (index < layout_.size() && static_cast<int64_t>(count) != layout_.range(index).count) {
      return absl::InvalidArgumentError(
          absl::StrCat("the gradient of '", layout_.spec(index).name, "' has ", count,
                       " elements; the parameter has ", layout_.range(index).count));
    }
    pipeline_.BeginWire();
    return reducer_.StartAdd(index, values, dtype);
  }

  absl::Status StartEndMicroStep() {
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

  absl::Status StartGather(size_t unit, Pass pass) {
    RZ_RETURN_IF_ERROR(CheckReady());
    if (pass != Pass::kEvaluation) {
      pipeline_.BeginWire();
    } else if (config_.stage == ZeroStage::kThree && pipeline_.has_wire()) {
      return absl::FailedPreconditionError(
          absl::StrCat("unit ", unit,
                       " is gathered for evaluation within a step; evaluate before "
                       "its first forward pass or after Step"));
    }
    return units_.Start(unit);
  }

  absl::Status Gather(size_t unit, Pass pass) {
    const Communicator::Turn turn(communicator_);
    RZ_RETURN_IF_ERROR(StartGather(unit, pass));
    const ParamUnit& parameters = layout_.unit(unit);
    for (size_t i = parameters.first; i < parameters.first + parameters.count; ++i) {
      RZ_RETURN_IF_ERROR(AwaitParameter(i));
    }
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

  bool IsGathered(size_t unit) const {
    const ParamUnit& parameters = layout_.unit(unit);
    for (size_t i = parameters.first; i < parameters.first + parameters.count; ++i) {
      if (deferred_.IsPending(layout_.storage_unit(i))) return false;
    }
    return units_.IsWhole(unit);
  }

  // Where its values are still on the way.
  absl::Status AwaitParameter(size_t index) { return deferred_.Await(layout_.storage_unit(index)); }

  absl::Status Release(size_t unit, Pass pass) {
    RZ_RETURN_IF_ERROR(CheckReady());
    RZ_RETURN_IF_ERROR(PollUnits());
    RZ_RETURN_IF_ERROR(units_.Release(unit, pass));
    if (pass != Pass::kBackward) return absl::OkStatus();
    RZ_RETURN_IF_ERROR(AwaitReady());
    pipeline_.BeginWire();
    return reducer_.CloseUnit(unit);
  }

  bool Poll() {
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

  // Polls to the end, sleeping in the operation that is waited for.
  void Run() {
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

  void Abandon() {
    broadcast_.Abandon();
    units_.Abandon();
    pipeline_.Abandon();
    deferred_.Abandon();
  }

  MemoryReport Memory() const {
    return MeasureMemory(ShapeOf(layout_, partition_, config_, ranks_.group_count()),
                         *config_.ledger);
  }

  absl::StatusOr<WirePlan> ExpectedWire() const {
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
  absl::Status CheckIdle() const {
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

  // For what needs initialized parameters.
  absl::Status CheckReady() const {
    RZ_RETURN_IF_ERROR(CheckIdle());
    return broadcast_.result();
  }

  // For what writes over parameters that may still be on their way from here.
  absl::Status AwaitReady() {
    RZ_RETURN_IF_ERROR(CheckReady());
    return deferred_.AwaitAll();
  }

  // What fails in a group fails everywhere.
  absl::Status PollUnits() {
    absl::Status status = units_.Poll();
    if (!status.ok()) ranks_.Abort(status);
    return status;
  }

  void MoveReductions() {
    while (reducer_.Advance()) {
    }
  }

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

absl::StatusOr<std::unique_ptr<ZeroOptimizer>> ZeroOptimizer::Create(Communicator* communicator,
                                                                     std::vector<ParamSpec> specs,
                                                                     ZeroConfig config) {
  RZ_RETURN_IF_ERROR(ValidateConfig(config));
  RZ_ASSIGN_OR_RETURN(const int group_size, ShardGroupSize(config, *communicator));
  RZ_ASSIGN_OR_RETURN(ShardGroups ranks, ShardGroups::Split(communicator, group_size));
  return Create(std::move(ranks), std::move(specs), std::move(config));
}

absl::StatusOr<std::unique_ptr<ZeroOptimizer>> ZeroOptimizer::Create(ShardGroups ranks,
                                                                     std::vector<ParamSpec> specs,
                                                                     ZeroConfig config) {
  config.shard_group_size = ranks.group_count() == 1 ? kAllRanks : ranks.group_size();
  RZ_RETURN_IF_ERROR(ValidateConfig(config));
  if (config.groups.empty()) config.groups.emplace_back();
  // So that each shard of a unit divides evenly among the groups too.
  const int64_t alignment = kAlignmentElements * ranks.all()->world_size();
  RZ_ASSIGN_OR_RETURN(FlatLayout layout, FlatLayout::Create(std::move(specs), alignment));
  RZ_RETURN_IF_ERROR(layout.CheckGroups(config.groups.size()));
  RZ_ASSIGN_OR_RETURN(
      Partition partition,
      Partition::Create(layout.segments(), ranks.group_size(),
                        {.tile_chunk = config.tile_chunk, .bucket_size = config.reduce_bucket_size},
                        layout.frozen_segments()));
  if (const std::string rounding = partition.BucketRounding();
      !rounding.empty() && ranks.all()->rank() == Rank(0)) {
    Log(LogLevel::kWarning, rounding);
  }
  RZ_ASSIGN_OR_RETURN(const OptimizerKernel kernel,
                      OptimizerKernel::Create(RuleOf(config.optimizer),
                                              AppliedGradientDType(config), config.dtype));
  RZ_ASSIGN_OR_RETURN(ModelState state, ModelState::Allocate(ranks.shard(), partition, config));
  auto impl = std::make_unique<Impl>(std::move(ranks), config, std::move(layout),
                                     std::move(partition), std::move(state), kernel);
  RZ_RETURN_IF_ERROR(impl->Prepare());
  return std::unique_ptr<ZeroOptimizer>(new ZeroOptimizer(std::move(impl)));
}

ZeroOptimizer::ZeroOptimizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ZeroOptimizer::~ZeroOptimizer() { impl_->Abandon(); }

absl::Status ZeroOptimizer::Initialize(const Initializer& initializer) {
  RZ_RETURN_IF_ERROR(StartInitialize(initializer));
  impl_->Run();
  return InitializeResult();
}

absl::StatusOr<StepReport> ZeroOptimizer::Step(const StepOptions& options) {
  RZ_RETURN_IF_ERROR(StartStep(options));
  impl_->Run();
  return StepResult();
}

absl::Status ZeroOptimizer::StartInitialize(Initializer initializer) {
  return impl_->StartInitialize(std::move(initializer));
}

absl::Status ZeroOptimizer::StartStep(const StepOptions& options) {
  return impl_->StartStep(options);
}

absl::Status ZeroOptimizer::RunGradient(const absl::Status& started) {
  RZ_RETURN_IF_ERROR(started);
  impl_->Run();
  return GradientResult();
}

absl::Status ZeroOptimizer::AddGradient(size_t index, absl::Span<const float> values) {
  return RunGradient(StartAddGradient(index, values));
}

absl::Status ZeroOptimizer::AddGradient(size_t index, absl::Span<const uint16_t> values) {
  return RunGradient(StartAddGradient(index, values));
}

absl::Status ZeroOptimizer::EndMicroStep() { return RunGradient(StartEndMicroStep()); }

absl::Status ZeroOptimizer::StartAddGradient(size_t index, absl::Span<const float> values) {
  return impl_->StartAdd(index, values.data(), values.size(), DType::kFloat32);
}

absl::Status ZeroOptimizer::StartAddGradient(size_t index, absl::Span<const uint16_t> values) {
  if (config().dtype == DType::kFloat32) {
    return absl::InvalidArgumentError("a gradient of 16 bits for parameters of float32");
  }
  return impl_->StartAdd(index, values.data(), values.size(), config().dtype);
}

absl::Status ZeroOptimizer::StartEndMicroStep() { return impl_->StartEndMicroStep(); }

absl::Status ZeroOptimizer::GradientResult() const { return impl_->reducer().result(); }

absl::Status ZeroOptimizer::Gather(size_t unit, Pass pass) { return impl_->Gather(unit, pass); }

absl::Status ZeroOptimizer::StartGather(size_t unit, Pass pass) {
  return impl_->StartGather(unit, pass);
}

bool ZeroOptimizer::IsGathered(size_t unit) const { return impl_->IsGathered(unit); }

absl::Status ZeroOptimizer::Release(size_t unit, Pass pass) { return impl_->Release(unit, pass); }

bool ZeroOptimizer::Poll() { return impl_->Poll(); }

absl::Status ZeroOptimizer::InitializeResult() const { return impl_->broadcast().result(); }

absl::StatusOr<StepReport> ZeroOptimizer::StepResult() const { return impl_->pipeline().result(); }

const FlatLayout& ZeroOptimizer::layout() const { return impl_->layout(); }
const Partition& ZeroOptimizer::partition() const { return impl_->partition(); }
const ZeroConfig& ZeroOptimizer::config() const { return impl_->config(); }
int64_t ZeroOptimizer::steps_taken() const { return impl_->steps_taken(); }
double ZeroOptimizer::learning_rate(size_t group) const { return impl_->learning_rate(group); }
StepTimeline* ZeroOptimizer::timeline() { return impl_->timeline(); }
double ZeroOptimizer::loss_scale() const { return impl_->pipeline().loss_scale(); }

void ZeroOptimizer::ZeroGradients() {
  std::ranges::fill(impl_->state().gradients.bytes(), std::byte{0});
}

absl::Span<const float> ZeroOptimizer::optimizer_state(size_t index) const {
  return impl_->state().optimizer[index].as<float>();
}
absl::Span<const float> ZeroOptimizer::master() const { return impl_->state().master.as<float>(); }

MemoryReport ZeroOptimizer::Memory() const { return impl_->Memory(); }

absl::StatusOr<WirePlan> ZeroOptimizer::ExpectedWire() const { return impl_->ExpectedWire(); }

absl::Span<const std::byte> ZeroOptimizer::parameter_shard() const {
  if (config().stage != ZeroStage::kThree) return {};
  return impl_->state().parameters.bytes();
}

// Addresses of bytes are not const, however a state is reached.
absl::Span<float> ZeroOptimizer::mutable_optimizer_state(size_t index) {
  return impl_->state().optimizer[index].as<float>();
}
absl::Span<float> ZeroOptimizer::mutable_master() { return impl_->state().master.as<float>(); }
absl::Span<std::byte> ZeroOptimizer::mutable_parameter_shard() {
  if (config().stage != ZeroStage::kThree) return {};
  return impl_->state().parameters.bytes();
}

absl::Status ZeroOptimizer::Resume(int64_t steps) { return impl_->Resume(steps); }

absl::Status ZeroOptimizer::CheckGathered(size_t index) const {
  RZ_RETURN_IF_ERROR(impl_->units().CheckParameter(index));
  return impl_->AwaitParameter(index);
}

std::byte* ZeroOptimizer::parameter_at(size_t index) const {
  if (!impl_->AwaitParameter(index).ok()) return nullptr;
  return impl_->units().ParameterAt(index);
}

std::byte* ZeroOptimizer::gradient_at(size_t index) const {
  if (!HoldsWholeGradients(config().stage) || layout().spec(index).frozen) return nullptr;
  return static_cast<std::byte*>(
      impl_->state().GradientAt(layout().range(index).offset, GradientDType(config())));
}

}  // namespace rz
