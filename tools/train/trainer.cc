// A step:
//   1. this rank's share of the global batch becomes float32 pixels
//   2. working weights are widened to float32; forward gives the loss
//   3. backward gives the gradients of sum(loss) * world / samples of all ranks, so that their
//   average
//      over ranks is the gradient of the mean loss, whatever each rank's share
//   4. they are rounded once, into the optimizer's buffers; the optimizer reduces, updates, gathers
#include "tools/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/chunk_layout.h"
#include "collectives/kernels/convert.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/status_macros.h"
#include "tools/train/non_finite.h"

namespace rz {
namespace {

// A small share of a global batch would make passes over the test set slow.
constexpr int64_t kMinTestBatch = 64;

ZeroConfig StepConfig(const TrainConfig& config, int64_t total_steps, const Clock* clock) {
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
  return zero;
}

float Rounded(float value, DType dtype) {
  float words[1];
  ConvertFromFloat(dtype, words, &value, 1);
  ConvertToFloat(dtype, &value, words, 1);
  return value;
}

std::vector<ParamSpec> Specs(const MlpShape& shape) {
  std::vector<ParamSpec> specs;
  for (const MlpParameter& parameter : shape.Parameters()) {
    specs.push_back({.name = parameter.name, .shape = parameter.shape});
  }
  return specs;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const Dataset* dataset, Communicator* communicator,
                 const Clock* clock)
    : config_(config),
      dataset_(dataset),
      communicator_(communicator),
      clock_(clock),
      order_(dataset->train.count(), config.global_batch, config.seed) {}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainConfig& config,
                                                         const Dataset* dataset,
                                                         Communicator* communicator,
                                                         const Clock* clock) {
  std::unique_ptr<Trainer> trainer(new Trainer(config, dataset, communicator, clock));
  const int64_t share = EvenSplit(config.global_batch, communicator->world_size(), 0).count;
  const int64_t max_batch = std::max(share, kMinTestBatch);
  RZ_ASSIGN_OR_RETURN(trainer->mlp_, Mlp::Create(config.model, max_batch));
  RZ_ASSIGN_OR_RETURN(trainer->optimizer_,
                      ZeroOptimizer::Create(communicator, Specs(config.model),
                                            StepConfig(config, trainer->total_steps(), clock)));
  const size_t pixels = static_cast<size_t>(max_batch * config.model.inputs());
  RZ_ASSIGN_OR_RETURN(trainer->pixels_,
                      Buffer::Allocate(pixels * sizeof(float), MemoryTag::kActivation));
  trainer->labels_.resize(static_cast<size_t>(max_batch));
  return trainer;
}

absl::Status Trainer::Initialize() {
  next_step_ = 0;
  return optimizer_->Initialize([this](size_t index, absl::Span<float> values) {
    InitialParameter(config_.model, index, config_.seed, values);
  });
}

void Trainer::LoadWeights() {
  for (size_t i = 0; i < 2 * config_.model.layer_count(); ++i) {
    const absl::Span<float> weights = mlp_->parameter(i);
    const void* from = config_.dtype == DType::kFloat32
                           ? static_cast<const void*>(optimizer_->Params<float>(i).data())
                           : optimizer_->Params<uint16_t>(i).data();
    ConvertToFloat(config_.dtype, weights.data(), from, weights.size());
  }
}

void Trainer::StoreGradients() {
  for (size_t i = 0; i < 2 * config_.model.layer_count(); ++i) {
    const absl::Span<const float> gradients = mlp_->gradient(i);
    void* to = config_.dtype == DType::kFloat32
                   ? static_cast<void*>(optimizer_->Grads<float>(i).data())
                   : optimizer_->Grads<uint16_t>(i).data();
    ConvertFromFloat(config_.dtype, to, gradients.data(), gradients.size());
  }
}

absl::StatusOr<BatchResult> Trainer::ForwardOn(const LabelledImages& images,
                                               absl::Span<const int64_t> indices) {
  const size_t width = static_cast<size_t>(images.features);
  const absl::Span<float> pixels = pixels_.as<float>().subspan(0, indices.size() * width);
  const absl::Span<uint8_t> labels = absl::MakeSpan(labels_).subspan(0, indices.size());
  images.Gather(indices, pixels, labels);
  const BatchResult result = mlp_->Forward(pixels, labels);
  if (std::isfinite(result.loss_sum)) return result;
  // The first parameter that is not finite; where all are, the one with the largest weight.
  std::string parameter;
  float largest = 0;
  for (size_t i = 0; i < 2 * config_.model.layer_count(); ++i) {
    const float magnitude = LargestMagnitude(mlp_->parameter(i));
    if (!parameter.empty() && magnitude <= largest) continue;
    parameter = config_.model.Parameters()[i].name;
    largest = magnitude;
    if (!std::isfinite(magnitude)) break;
  }
  return absl::OutOfRangeError(absl::StrFormat(
      "the loss of %d samples of rank %d is %s (largest weight %g, in %s): is the learning rate %g "
      "too large?",
      indices.size(), communicator_->rank().value(),
      std::isnan(result.loss_sum) ? "not a number" : "infinite", largest, parameter,
      optimizer_->learning_rate()));
}

absl::StatusOr<std::string> Trainer::SkipCause() {
  const std::vector<MlpParameter> parameters = config_.model.Parameters();
  auto bad = static_cast<int64_t>(parameters.size());
  for (int64_t i = bad - 1; i >= 0; --i) {
    // As it was sent: rounding to 16 bits may have made it infinite.
    const float magnitude = LargestMagnitude(mlp_->gradient(static_cast<size_t>(i)));
    if (!std::isfinite(Rounded(magnitude, config_.dtype))) bad = i;
  }
  std::vector<int64_t> all(static_cast<size_t>(communicator_->world_size()));
  RZ_RETURN_IF_ERROR(
      communicator_->AllGather(&bad, all.data(), static_cast<int64_t>(all.size()), DType::kInt64));
  return DescribeSkip(all, parameters);
}

absl::StatusOr<TrainStep> Trainer::Step() {
  const absl::Duration begin = clock_->Now();
  TrainStep step;
  step.global_samples = static_cast<int64_t>(order_.GlobalBatch(next_step_).size());
  const absl::Span<const int64_t> indices =
      order_.LocalBatch(next_step_, communicator_->rank(), communicator_->world_size());
  step.local_samples = static_cast<int64_t>(indices.size());
  ++next_step_;

  LoadWeights();
  RZ_ASSIGN_OR_RETURN(step.local, ForwardOn(dataset_->train, indices));
  const absl::Duration forward_end = clock_->Now();

  mlp_->Backward(static_cast<float>(
      GradientScale(communicator_->world_size(), step.global_samples) * optimizer_->loss_scale()));
  StoreGradients();
  const absl::Duration backward_end = clock_->Now();

  RZ_ASSIGN_OR_RETURN(step.report, optimizer_->Step({}));
  if (step.report.skipped) {
    RZ_ASSIGN_OR_RETURN(step.skip_cause, SkipCause());
  }
  step.forward = forward_end - begin;
  step.backward = backward_end - forward_end;
  step.total = clock_->Now() - begin;
  return step;
}

absl::StatusOr<double> Trainer::TestAccuracy() {
  const LabelledImages& test = dataset_->test;
  const Range share =
      EvenSplit(test.count(), communicator_->world_size(), communicator_->rank().value());
  std::vector<int64_t> indices(static_cast<size_t>(share.count));
  std::iota(indices.begin(), indices.end(), share.offset);
  LoadWeights();
  int64_t correct = 0;
  const size_t batch = static_cast<size_t>(mlp_->max_batch());
  for (size_t begin = 0; begin < indices.size(); begin += batch) {
    RZ_ASSIGN_OR_RETURN(const BatchResult result,
                        ForwardOn(test, absl::MakeConstSpan(indices).subspan(begin, batch)));
    correct += result.correct;
  }
  RZ_ASSIGN_OR_RETURN(const double all_correct, SumOverRanks(static_cast<double>(correct)));
  return all_correct / static_cast<double>(test.count());
}

absl::StatusOr<uint32_t> Trainer::WeightsCrc32c() {
  uint32_t crc = 0;
  for (size_t i = 0; i < 2 * config_.model.layer_count(); ++i) {
    if (config_.dtype == DType::kFloat32) {
      const absl::Span<const float> weights = optimizer_->Params<float>(i);
      crc = Crc32c(crc, weights.data(), weights.size() * sizeof(float));
    } else {
      const absl::Span<const uint16_t> weights = optimizer_->Params<uint16_t>(i);
      crc = Crc32c(crc, weights.data(), weights.size() * sizeof(uint16_t));
    }
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
