// TrainingRun: a whole run of one rank, from the first weights to the last line. All ranks run it
// together; what is printed comes from the rank whose Progress has a stream.
#ifndef RINGZERO_TOOLS_TRAIN_TRAINING_RUN_H_
#define RINGZERO_TOOLS_TRAIN_TRAINING_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "optimizer/step_timeline.h"
#include "optimizer/step_trace.h"
#include "runtime/base/clock.h"
#include "tools/train/clock_alignment.h"
#include "tools/train/dataset.h"
#include "tools/train/process_memory.h"
#include "tools/train/progress.h"
#include "tools/train/run_report.h"
#include "tools/train/train_config.h"
#include "tools/train/trainer.h"

namespace rz {

// "test accuracy 0.8712", or "validation loss 1.8123 nats/char" of a text.
std::string DescribeEvaluation(const Evaluation& evaluation, const Dataset& dataset);

class TrainingRun {
 public:
  // Everything outlives the run. `reference` is shown in the memory table at the end.
  TrainingRun(const TrainConfig& config, const Dataset* dataset, Communicator* communicator,
              std::string transport, std::optional<ReferenceRun> reference, Progress* progress,
              const Clock* clock);

  // Trains to the last step and prints: a header; a line for each of the first 20 steps and of
  // those that the config asks for; a bar for each epoch that goes on after them; memory, wire,
  // times, accuracy or validation loss, CRC; text that the model writes.
  //   Internal   weights differ between ranks, or bytes measured (memory, wire) are not the
  //              formula's
  //   Unknown    what is printed, or the trace, could not be written
  //   otherwise  as Trainer's
  absl::Status Run();

  // The step that was under way or is done, from 1; 0 before the first.
  int64_t step() const { return step_; }

  // Of a run that has ended well.
  const RunReport& report() const { return report_; }

 private:
  absl::Status RunSteps();
  absl::Status TrainOne();
  absl::Status EndEpoch();
  absl::Status Finish();

  absl::Status StartTrace();
  absl::Status FinishTrace();

  void PrintHeader();
  absl::Status PrintStep(const TrainStep& step);
  void PrintSummary();
  std::string QualityLine() const;
  absl::Status PrintSample();
  void PrintTable(std::string table);
  std::string EpochLabel() const;
  // The epoch's bar with its loss so far, by one of Progress's two ways.
  void DrawBar(void (Progress::*draw)(const std::string&, int64_t, int64_t, const std::string&));

  const TrainConfig config_;
  const Dataset* dataset_;
  Communicator* communicator_;
  const std::optional<ReferenceRun> reference_;
  Progress* progress_;
  const Clock* clock_;

  std::optional<StepTrace> trace_;  // outlives the trainer, which records in it
  ClockAlignment alignment_;
  std::unique_ptr<Trainer> trainer_;
  RunReport report_;
  StepTimes times_;  // of all steps of this rank
  ProcessMemorySamples process_memory_;
  int64_t step_ = 0;
  int64_t last_step_ = 0;
  absl::Duration epoch_begin_;
  double epoch_loss_sum_ = 0;  // of this rank's samples
  int64_t epoch_local_samples_ = 0;
  int64_t epoch_samples_ = 0;    // of all ranks
  int64_t label_count_ = 1;      // of a sample
  int64_t wire_difference_ = 0;  // the largest of any step, in bytes
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_TRAINING_RUN_H_
