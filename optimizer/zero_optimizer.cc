#include "optimizer/zero_optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/kernels/optimizer_kernel.h"
#include "optimizer/model_state.h"
#include "optimizer/parameter_broadcast.h"
#include "optimizer/stage_policy.h"
#include "optimizer/step_pipeline.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

void FillZero(absl::Span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); }

}  // namespace

double GradientScale(int world_size, int64_t samples_of_all_ranks) {
  return static_cast<double>(world_size) / static_cast<double>(samples_of_all_ranks);
}

class ZeroOptimizer::Impl {
 public:
  Impl(Communicator* communicator, ZeroConfig config, FlatLayout layout, Partition partition,
       ModelState state, OptimizerKernel kernel)
      : communicator_(communicator),
        config_(config),
        layout_(std::move(layout)),
        partition_(partition),
        state_(std::move(state)),
        policy_(MakeStagePolicy(config.stage, {.communicator = communicator,
                                               .partition = &partition_,
                                               .state = &state_,
                                               .dtype = config.dtype,
                                               .kernel = kernel})),
        broadcast_(communicator, &layout_, &partition_, &config_, policy_.get()),
        pipeline_(communicator, &layout_, &partition_, &config_, policy_.get()) {}

  absl::Status StartInitialize(Initializer initializer) {
    RZ_RETURN_IF_ERROR(CheckIdle());
    RZ_RETURN_IF_ERROR(broadcast_.Start(std::move(initializer)));
    steps_taken_ = 0;
    pipeline_.Reset();
    for (const Buffer& state : state_.optimizer) FillZero(state.bytes());
    return absl::OkStatus();
  }

  absl::Status StartStep(const StepOptions& options) {
    RZ_RETURN_IF_ERROR(CheckIdle());
    RZ_RETURN_IF_ERROR(broadcast_.result());
    const double rate = options.learning_rate.value_or(learning_rate());
    if (!(rate >= 0) || !std::isfinite(rate)) {
      return absl::InvalidArgumentError(
          absl::StrCat("learning rate is ", rate, "; it must be finite and at least 0"));
    }
    pipeline_.Start(steps_taken_, rate);
    return absl::OkStatus();
  }

  bool Poll() {
    if (broadcast_.running()) return broadcast_.Poll();
    if (!pipeline_.running()) return true;
    if (!pipeline_.Poll()) return false;
    if (pipeline_.result().ok()) steps_taken_ = pipeline_.result()->step;
    return true;
  }

  // Polls to the end, sleeping in the operation that is waited for.
  void Run() {
    while (!Poll()) {
      Operation* operation = broadcast_.running() ? broadcast_.awaited() : pipeline_.awaited();
      // Its status is seen by the next Poll.
      if (operation != nullptr) (void)operation->Wait();
    }
  }

  void Abandon() {
    broadcast_.Abandon();
    pipeline_.Abandon();
  }

  MemoryReport Memory() const {
    const ModelShape shape = {
        .parameter_elements = layout_.parameter_elements(),
        .padding_elements = partition_.padded_elements() - layout_.parameter_elements(),
        .world = partition_.world(),
        .stage = config_.stage,
        .dtype = config_.dtype,
        .optimizer_states = static_cast<int>(StateCount(config_.optimizer))};
    return MeasureMemory(shape, *config_.ledger);
  }

  absl::StatusOr<WirePlan> ExpectedWire() const {
    const bool whole = config_.stage == ZeroStage::kDdp || config_.stage == ZeroStage::kNaive;
    const Collective reduction = whole ? Collective::kAllReduce : Collective::kReduceScatter;
    WireRoutes routes;
    RZ_ASSIGN_OR_RETURN(routes.reduce, communicator_->CarriageOf(reduction, config_.dtype));
    RZ_ASSIGN_OR_RETURN(routes.gather,
                        communicator_->CarriageOf(Collective::kAllGather, config_.dtype));
    RZ_ASSIGN_OR_RETURN(routes.control,
                        communicator_->CarriageOf(Collective::kAllGather, DType::kInt64));
    const int64_t elements = partition_.padded_elements();
    return PlanWire({.stage = config_.stage,
                     .world = partition_.world(),
                     .dtype = config_.dtype,
                     .reduced_elements = elements,
                     .gathered_elements = config_.stage == ZeroStage::kDdp ? 0 : elements},
                    routes);
  }

  const FlatLayout& layout() const { return layout_; }
  const Partition& partition() const { return partition_; }
  const ZeroConfig& config() const { return config_; }
  const ModelState& state() const { return state_; }
  const ParameterBroadcast& broadcast() const { return broadcast_; }
  const StepPipeline& pipeline() const { return pipeline_; }
  int64_t steps_taken() const { return steps_taken_; }
  double learning_rate() const {
    return LearningRate(config_.schedule, config_.optimizer.learning_rate, steps_taken_);
  }

 private:
  absl::Status CheckIdle() const {
    if (broadcast_.running() || pipeline_.running()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", communicator_->rank().value(), " has ",
                       broadcast_.running() ? "an initialization" : "a step",
                       " under way; poll it to its end before the next activity"));
    }
    return communicator_->status();
  }

  Communicator* communicator_;
  ZeroConfig config_;
  FlatLayout layout_;
  Partition partition_;
  ModelState state_;
  std::unique_ptr<StagePolicy> policy_;
  ParameterBroadcast broadcast_;
  StepPipeline pipeline_;
  int64_t steps_taken_ = 0;
};

absl::StatusOr<std::unique_ptr<ZeroOptimizer>> ZeroOptimizer::Create(Communicator* communicator,
                                                                     std::vector<ParamSpec> specs,
                                                                     ZeroConfig config) {
  RZ_RETURN_IF_ERROR(ValidateConfig(config));
  RZ_ASSIGN_OR_RETURN(FlatLayout layout, FlatLayout::Create(std::move(specs)));
  RZ_ASSIGN_OR_RETURN(const Partition partition,
                      Partition::Create(layout.flat_elements(), communicator->world_size(),
                                        {.tile_chunk = config.tile_chunk,
                                         .bucket_size = config.reduce_bucket_size}));
  if (const std::string rounding = partition.BucketRounding();
      !rounding.empty() && communicator->rank() == Rank(0)) {
    Log(LogLevel::kWarning, rounding);
  }
  RZ_ASSIGN_OR_RETURN(
      const OptimizerKernel kernel,
      OptimizerKernel::Create(RuleOf(config.optimizer), config.dtype, config.dtype));
  RZ_ASSIGN_OR_RETURN(ModelState state, ModelState::Allocate(partition, config));
  return std::unique_ptr<ZeroOptimizer>(new ZeroOptimizer(std::make_unique<Impl>(
      communicator, config, std::move(layout), partition, std::move(state), kernel)));
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

bool ZeroOptimizer::Poll() { return impl_->Poll(); }

absl::Status ZeroOptimizer::InitializeResult() const { return impl_->broadcast().result(); }

absl::StatusOr<StepReport> ZeroOptimizer::StepResult() const { return impl_->pipeline().result(); }

const FlatLayout& ZeroOptimizer::layout() const { return impl_->layout(); }
const Partition& ZeroOptimizer::partition() const { return impl_->partition(); }
const ZeroConfig& ZeroOptimizer::config() const { return impl_->config(); }
int64_t ZeroOptimizer::steps_taken() const { return impl_->steps_taken(); }
double ZeroOptimizer::learning_rate() const { return impl_->learning_rate(); }
double ZeroOptimizer::loss_scale() const { return impl_->pipeline().loss_scale(); }

void ZeroOptimizer::ZeroGradients() { FillZero(gradient_bytes()); }

absl::Span<const float> ZeroOptimizer::optimizer_state(size_t index) const {
  return impl_->state().optimizer[index].as<float>();
}
absl::Span<const float> ZeroOptimizer::master() const { return impl_->state().master.as<float>(); }

MemoryReport ZeroOptimizer::Memory() const { return impl_->Memory(); }

absl::StatusOr<WirePlan> ZeroOptimizer::ExpectedWire() const { return impl_->ExpectedWire(); }

absl::Span<std::byte> ZeroOptimizer::parameter_bytes() const {
  return impl_->state().parameters.bytes();
}
absl::Span<std::byte> ZeroOptimizer::gradient_bytes() const {
  return impl_->state().gradients.bytes();
}

}  // namespace rz
