// Trainer: one rank's part of training a model with a ZeroOptimizer. It connects the data, the
// model and the optimizer; what is printed and when to stop is its caller's.
//
// All ranks call the same methods in the same order. One owner thread, the communicator's. Every
// method that talks to the other ranks fails with the communicator's first cause.
#ifndef RINGZERO_TOOLS_TRAIN_TRAINER_H_
#define RINGZERO_TOOLS_TRAIN_TRAINER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "optimizer/step_trace.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/clock.h"
#include "tools/train/batch_order.h"
#include "tools/train/dataset.h"
#include "tools/train/evaluation.h"
#include "tools/train/model.h"
#include "tools/train/train_config.h"

namespace rz {

struct TrainStep {
  BatchResult local;  // of this rank's samples
  int64_t local_samples = 0;
  int64_t global_samples = 0;
  // Its times are of the whole step: forward counts the gathering of samples and the widening of
  // weights, backward the rounding of gradients too; what moves or waits for collectives on the way
  // is communication.
  StepReport report;
};

class Trainer : private UnitStore {
 public:
  // Allocates everything. Local. `dataset` fits the model and, with the communicator and the clock,
  // outlives the trainer.
  //   ResourceExhausted, InvalidArgument, Unimplemented   as CreateModel, ZeroOptimizer::Create
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TrainConfig& config,
                                                         const Dataset* dataset,
                                                         Communicator* communicator,
                                                         const Clock* clock);

  // First values from the seed, the same on all ranks.
  absl::Status Initialize();

  // Records the steps from here on in `trace`, which outlives the trainer.
  void set_trace(StepTrace* trace) { optimizer_->timeline()->set_trace(trace); }

  // The next step of the order of samples.
  //   OutOfRange  the loss of this rank's samples is not finite; of this pass no gradient was sent.
  //               The message has the parameter with the largest weight
  absl::StatusOr<TrainStep> Step();

  // Of the working weights on the test set, each rank looking at its share.
  //   OutOfRange  as Step
  absl::StatusOr<Evaluation> Evaluate();

  // The scores of samples of this rank's own, [labels, classes], until the next pass. Collective:
  // all ranks make as many calls, each with the samples that it has, also none.
  //   OutOfRange  as Step
  absl::StatusOr<absl::Span<const float>> Predict(const Batch& batch);

  // CRC-32C of the working weights in declaration order, without padding.
  //   Internal  not all ranks have the same; the message has all of them
  absl::StatusOr<uint32_t> WeightsCrc32c();

  absl::StatusOr<double> SumOverRanks(double value);
  absl::StatusOr<int64_t> MaxOverRanks(int64_t value);

  int64_t steps_per_epoch() const { return order_.steps_per_epoch(); }
  int64_t total_steps() const {
    return config_.steps > 0 ? config_.steps : config_.epochs * steps_per_epoch();
  }
  Rank rank() const { return communicator_->rank(); }
  const Dataset& dataset() const { return *dataset_; }
  const Model& model() const { return *model_; }
  const ZeroOptimizer& optimizer() const { return *optimizer_; }

 private:
  Trainer(const TrainConfig& config, const Dataset* dataset, Communicator* communicator);

  // UnitStore: the optimizer's units. A unit's weights are widened, and the next unit's are on
  // their way; its gradients are announced.
  absl::Status Load(size_t unit, Pass pass, absl::Span<float> parameters) override;
  absl::Status Take(size_t unit, absl::Span<const float> gradients) override;
  absl::Status Done(size_t unit, Pass pass) override;

  // This unit is used in `pass` from here on.
  void Enter(size_t unit, Pass pass);

  // Of parameter `index`, whose unit is gathered.
  const void* WorkingWeights(size_t index) const;
  void Widen(size_t index, absl::Span<float> to);
  size_t ElementCount(size_t index) const {
    return static_cast<size_t>(model_->parameters()[index].element_count);
  }

  //   OutOfRange  as Step
  absl::StatusOr<BatchResult> Forward(const Batch& batch, Pass pass);
  absl::StatusOr<BatchResult> ForwardOn(const SampleSet& samples, absl::Span<const int64_t> indices,
                                        Pass pass);

  // One micro-step, added to `step`.
  absl::Status MicroStep(absl::Span<const int64_t> indices, TrainStep* step);

  const TrainConfig config_;
  const Dataset* dataset_;
  Communicator* communicator_;
  BatchOrder order_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ZeroOptimizer> optimizer_;
  std::vector<uint8_t> inputs_;  // [max batch, input size]
  std::vector<uint8_t> labels_;  // [max batch, labels of a sample]
  std::vector<float> largest_;   // magnitude of each parameter when it was last used forward
  int64_t next_step_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_TRAINER_H_
