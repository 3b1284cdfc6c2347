#include "optimizer/zero_optimizer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/zero_optimizer_impl.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace rz {

double GradientScale(int world_size, int64_t samples_of_all_ranks) {
  return static_cast<double>(world_size) / static_cast<double>(samples_of_all_ranks);
}

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

void ZeroOptimizer::Prefetch(size_t unit, Pass pass) { impl_->Prefetch(unit, pass); }

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
  if (AnnouncesGradients(config())) return;
  std::ranges::fill(impl_->state().gradients.bytes(), std::byte{0});
}

absl::Span<const float> ZeroOptimizer::optimizer_state(size_t index) const {
  return impl_->state().optimizer[index].as<float>();
}
absl::Span<const float> ZeroOptimizer::master() const { return impl_->state().master.as<float>(); }

MemoryReport ZeroOptimizer::Memory() const { return impl_->Memory(); }

absl::StatusOr<WireRoutes> ZeroOptimizer::Routes() const { return impl_->Routes(); }

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
  if (AnnouncesGradients(config()) || layout().spec(index).frozen) return nullptr;
  return static_cast<std::byte*>(
      impl_->state().GradientAt(layout().range(index).offset, GradientDType(config())));
}

}  // namespace rz
