// A step, or each of its micro-steps:
//   1. this rank's share of the samples is gathered
//   2. forward, unit by unit (layer by layer): the unit's working weights are gathered where they
//      are sharded, and widened to float32
//   3. backward, from the last unit: gradients of sum(loss) * world / labels of all ranks, so that
//      their average over ranks is the gradient of the mean loss, whatever each rank's share; each
//      unit's are announced to the optimizer at once, which rounds and reduces them
// and then the optimizer's step.
#include "tools/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/chunk_layout.h"
#include "collectives/kernels/convert.h"
#include "optimizer/group_rules.h"
#include "optimizer/layout/limits.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/status_macros.h"
#include "tools/train/create_model.h"
#include "tools/train/non_finite.h"

namespace rz {
namespace {

// A small share of a global batch would make passes over the test set slow. In labels.
constexpr int64_t kMinTestBatch = 64;

// A model of a few units has small ones: with tiles and buckets made for large models one of them
// would be the whole.
constexpr int64_t kTilesOfModel = 16;

// With padding, at most: behind what is trained and behind what is frozen.
int64_t LargestUnit(const Model& model, int world) {
  std::vector<int64_t> elements(model.unit_count(), 2 * kAlignmentElements * world);
  for (const ModelParameter& parameter : model.parameters()) {
    if (parameter.tied_to.empty()) elements[parameter.unit] += parameter.element_count;
  }
  return *std::max_element(elements.begin(), elements.end());
}

void FitToModel(const Model& model, int world, ZeroConfig* zero) {
  const int64_t chunk = std::max<int64_t>(1, model.ParameterCount() / (kTilesOfModel * world));
  zero->tile_chunk =
      std::clamp<int64_t>(static_cast<int64_t>(absl::bit_floor(static_cast<uint64_t>(chunk))),
                          kAlignmentElements, kDefaultTileChunk);
  if (HoldsWholeGradients(zero->stage)) return;
  zero->reduce_bucket_size = zero->tile_chunk * world;
  // Any unit may be on its way beside the one in use. Without more memory than that takes, the last
  // ones can wait for backward.
  zero->prefetch_bucket_size = zero->max_reuse_distance = LargestUnit(model, world);
}

ZeroConfig StepConfig(const TrainConfig& config, const Model& model, int world, int64_t total_steps,
                      const Clock* clock) {
  ZeroConfig zero = config.zero;
  zero.stage = config.stage;
  zero.dtype = config.dtype;
  zero.optimizer = config.optimizer;
  zero.schedule = config.schedule;
  // A configuration may say of a part of the run that it is the whole.
  if (zero.schedule.total_steps == 0) zero.schedule.total_steps = total_steps;
  zero.gradient_clipping = config.clip;
  zero.loss_scale = config.loss_scale;
  zero.clock = clock;
  zero.announce_gradients = true;
  // Every unit is gathered before it is used.
  zero.gather_behind_forward = zero.overlap_communication;
  // What a configuration says of them is what it asks for.
  if (config.settings.empty()) FitToModel(model, world, &zero);
  return zero;
}

absl::StatusOr<std::vector<ParamSpec>> Specs(const Model& model, const TrainConfig& config) {
  std::vector<ParamSpec> specs;
  for (const ModelParameter& parameter : model.parameters()) {
    specs.push_back({.name = parameter.name,
                     .shape = parameter.shape,
                     .unit = static_cast<int>(parameter.unit),
                     .tied_to = parameter.tied_to});
  }
  RZ_RETURN_IF_ERROR(AssignGroups(config.group_rules, &specs));
  return specs;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const Dataset* dataset, Communicator* communicator)
    : config_(config),
      dataset_(dataset),
      communicator_(communicator),
      order_(dataset->train->count(), config.global_batch, config.seed) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainConfig& config,
                                                         const Dataset* dataset,
                                                         Communicator* communicator,
                                                         const Clock* clock) {
  std::unique_ptr<Trainer> trainer(new Trainer(config, dataset, communicator));
  const int64_t share =
      EvenSplit(EvenSplit(config.global_batch, communicator->world_size(), 0).count,
                config.zero.gradient_accumulation_steps, 0)
          .count;
  const int64_t labels = dataset->train->label_count();
  const int64_t max_batch = std::max(share, (kMinTestBatch + labels - 1) / labels);
  RZ_ASSIGN_OR_RETURN(trainer->model_, CreateModel(config.model, *dataset->train, max_batch));
  const Model& model = *trainer->model_;
  RZ_ASSIGN_OR_RETURN(std::vector<ParamSpec> specs, Specs(model, config));
  RZ_ASSIGN_OR_RETURN(trainer->optimizer_,
                      ZeroOptimizer::Create(communicator, std::move(specs),
                                            StepConfig(config, model, communicator->world_size(),
                                                       trainer->total_steps(), clock)));
  trainer->inputs_.resize(static_cast<size_t>(max_batch * dataset->train->input_size()));
  trainer->labels_.resize(static_cast<size_t>(max_batch * dataset->train->label_count()));
  trainer->largest_.resize(model.parameters().size());
  return trainer;
}

absl::Status Trainer::Initialize() {
  next_step_ = 0;
  return optimizer_->Initialize([this](size_t index, absl::Span<float> values) {
    model_->Initialize(index, config_.seed, values);
  });
}

const void* Trainer::WorkingWeights(size_t index) const {
  if (config_.dtype == DType::kFloat32) return optimizer_->Params<float>(index).data();
  return optimizer_->Params<uint16_t>(index).data();
}

void Trainer::Widen(size_t index, absl::Span<float> to) {
  ConvertToFloat(config_.dtype, to.data(), WorkingWeights(index), to.size());
}

void Trainer::Enter(size_t unit, Pass pass) {
  if (pass == Pass::kEvaluation) return;
  optimizer_->timeline()->Enter(pass == Pass::kForward ? StepPart::kForward : StepPart::kBackward,
                                {.unit = static_cast<int32_t>(unit)});
}

absl::Status Trainer::Load(size_t unit, Pass pass, absl::Span<float> parameters) {
  Enter(unit, pass);
  RZ_RETURN_IF_ERROR(optimizer_->Gather(unit, pass));
  optimizer_->Prefetch(unit, pass);
  const ParamUnit& range = optimizer_->layout().unit(unit);
  for (size_t index = range.first; index < range.first + range.count; ++index) {
    const size_t count = ElementCount(index);
    Widen(index, parameters.first(count));
    if (pass != Pass::kBackward) largest_[index] = LargestMagnitude(parameters.first(count));
    parameters.remove_prefix(count);
  }
  return absl::OkStatus();
}

// The last first, as they lie in the buckets; what is frozen has none.
absl::Status Trainer::Take(size_t unit, absl::Span<const float> gradients) {
  const ParamUnit& range = optimizer_->layout().unit(unit);
  for (size_t index = range.first + range.count; index-- > range.first;) {
    const size_t count = ElementCount(index);
    if (!optimizer_->layout().spec(index).frozen) {
      RZ_RETURN_IF_ERROR(optimizer_->AddGradient(index, gradients.last(count)));
    }
    gradients.remove_suffix(count);
  }
  return absl::OkStatus();
}

absl::Status Trainer::Done(size_t unit, Pass pass) { return optimizer_->Release(unit, pass); }

absl::StatusOr<BatchResult> Trainer::ForwardOn(const SampleSet& samples,
                                               absl::Span<const int64_t> indices, Pass pass) {
  const auto inputs =
      absl::MakeSpan(inputs_).first(indices.size() * static_cast<size_t>(samples.input_size()));
  const auto labels =
      absl::MakeSpan(labels_).first(indices.size() * static_cast<size_t>(samples.label_count()));
  samples.Gather(indices, inputs, labels);
  return Forward({inputs, labels}, pass);
}

absl::StatusOr<BatchResult> Trainer::Forward(const Batch& batch, Pass pass) {
  RZ_ASSIGN_OR_RETURN(const BatchResult result, model_->Forward(batch, pass, this));
  if (std::isfinite(result.loss_sum)) return result;
  // The first parameter that is not finite; where all are, the one with the largest weight.
  size_t parameter = 0;
  for (size_t i = 1; i < largest_.size() && std::isfinite(largest_[parameter]); ++i) {
    if (largest_[i] > largest_[parameter]) parameter = i;
  }
  return absl::OutOfRangeError(absl::StrFormat(
      "the loss of %d samples of rank %d is %s (largest weight %g, in %s): is the learning rate %g "
      "too large?",
      static_cast<int64_t>(batch.labels.size()) / dataset_->train->label_count(),
      communicator_->rank().value(), std::isnan(result.loss_sum) ? "not a number" : "infinite",
      largest_[parameter], model_->parameters()[parameter].name, optimizer_->learning_rate()));
}

absl::Status Trainer::MicroStep(absl::Span<const int64_t> indices, TrainStep* step) {
  const StepSection forward(optimizer_->timeline(), StepPart::kForward);
  RZ_ASSIGN_OR_RETURN(const BatchResult result,
                      ForwardOn(*dataset_->train, indices, Pass::kForward));
  step->local.loss_sum += result.loss_sum;
  step->local.correct += result.correct;
  optimizer_->timeline()->Enter(StepPart::kBackward);
  const int64_t labels = step->global_samples * dataset_->train->label_count();
  return model_->Backward(static_cast<float>(GradientScale(communicator_->world_size(), labels) *
                                             optimizer_->loss_scale()),
                          this);
}

absl::StatusOr<TrainStep> Trainer::Step() {
  optimizer_->timeline()->Begin();
  TrainStep step;
  step.global_samples = static_cast<int64_t>(order_.GlobalBatch(next_step_).size());
  const absl::Span<const int64_t> indices =
      order_.LocalBatch(next_step_, communicator_->rank(), communicator_->world_size());
  step.local_samples = static_cast<int64_t>(indices.size());
  ++next_step_;

  const int64_t micro_steps = config_.zero.gradient_accumulation_steps;
  for (int64_t i = 0; i < micro_steps; ++i) {
    const Range part = EvenSplit(step.local_samples, micro_steps, i);
    RZ_RETURN_IF_ERROR(MicroStep(
        indices.subspan(static_cast<size_t>(part.offset), static_cast<size_t>(part.count)), &step));
    if (i + 1 < micro_steps) RZ_RETURN_IF_ERROR(optimizer_->EndMicroStep());
  }
  RZ_ASSIGN_OR_RETURN(step.report, optimizer_->Step({}));
  return step;
}

absl::StatusOr<Evaluation> Trainer::Evaluate() {
  const SampleSet& test = *dataset_->test;
  const Range share =
      EvenSplit(test.count(), communicator_->world_size(), communicator_->rank().value());
  std::vector<int64_t> indices(static_cast<size_t>(share.count));
  std::iota(indices.begin(), indices.end(), share.offset);
  BatchResult sum;
  // As many batches as the rank with the largest share: all gather the weights together.
  const auto batch = static_cast<size_t>(model_->max_batch());
  const auto largest =
      static_cast<size_t>(EvenSplit(test.count(), communicator_->world_size(), 0).count);
  for (size_t begin = 0; begin < largest; begin += batch) {
    const size_t at = std::min(begin, indices.size());
    RZ_ASSIGN_OR_RETURN(
        const BatchResult result,
        ForwardOn(test, absl::MakeConstSpan(indices).subspan(at, batch), Pass::kEvaluation));
    sum.loss_sum += result.loss_sum;
    sum.correct += result.correct;
  }
  RZ_ASSIGN_OR_RETURN(const double loss, SumOverRanks(sum.loss_sum));
  RZ_ASSIGN_OR_RETURN(const double correct, SumOverRanks(static_cast<double>(sum.correct)));
  const auto labels = static_cast<double>(test.count() * test.label_count());
  return Evaluation{loss / labels, correct / labels};
}

absl::StatusOr<absl::Span<const float>> Trainer::Predict(const Batch& batch) {
  RZ_RETURN_IF_ERROR(Forward(batch, Pass::kEvaluation).status());
  return model_->scores();
}

absl::StatusOr<uint32_t> Trainer::WeightsCrc32c() {
  uint32_t crc = 0;
  for (size_t unit = 0; unit < model_->unit_count(); ++unit) {
    RZ_RETURN_IF_ERROR(optimizer_->Gather(unit, Pass::kEvaluation));
    const ParamUnit& range = optimizer_->layout().unit(unit);
    for (size_t i = range.first; i < range.first + range.count; ++i) {
      crc = Crc32c(crc, WorkingWeights(i), ElementCount(i) * SizeOf(config_.dtype));
    }
    RZ_RETURN_IF_ERROR(optimizer_->Release(unit, Pass::kEvaluation));
  }
  std::vector<uint32_t> all(static_cast<size_t>(communicator_->world_size()));
  RZ_RETURN_IF_ERROR(
      communicator_->AllGather(&crc, all.data(), static_cast<int64_t>(all.size()), DType::kInt32));
  if (std::any_of(all.begin(), all.end(), [crc](uint32_t other) { return other != crc; })) {
    std::string list;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      absl::StrAppendFormat(&list, "%s rank %d %08X", rank == 0 ? "" : ",", rank, all[rank]);
    }
    return absl::InternalError(absl::StrCat("the ranks' weights differ; crc32c of", list));
  }
  return crc;
}

absl::StatusOr<double> Trainer::SumOverRanks(double value) {
  RZ_RETURN_IF_ERROR(communicator_->AllReduce(&value, &value, 1, DType::kFloat64, ReduceOp::kSum));
  return value;
}

absl::StatusOr<int64_t> Trainer::MaxOverRanks(int64_t value) {
  RZ_RETURN_IF_ERROR(communicator_->AllReduce(&value, &value, 1, DType::kInt64, ReduceOp::kMax));
  return value;
}

}  // namespace rz
