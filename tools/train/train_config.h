// What a training run is told, read from the command line and checked as far as it can be without
// data and without the other ranks.
#ifndef RINGZERO_TOOLS_TRAIN_TRAIN_CONFIG_H_
#define RINGZERO_TOOLS_TRAIN_TRAIN_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optimizer/config/schema_reader.h"
#include "optimizer/group_rules.h"
#include "optimizer/zero_config.h"
#include "runtime/base/dtype.h"
#include "tools/flag_set.h"
#include "tools/train/architecture.h"
#include "tools/train/dataset.h"
#include "tools/train/images.h"

namespace rz {

struct TrainConfig {
  // What --config says of things that have no flag; without it the defaults.
  ZeroConfig zero;

  // Which parameters are of zero's groups.
  std::vector<GroupRule> group_rules;

  // Every key of --config, with its value and where that came from; empty without it.
  std::vector<Setting> settings;
  bool print_config = false;
  int64_t steps_per_print = 0;  // beside the first steps; 0: none
  bool step_breakdown = false;  // of each printed step, over all ranks

  std::string dataset = "fashion-mnist";
  // A folder of images, or a text's file; empty: the Bible as its command prints it.
  std::string data_dir = kFashionMnistDir;
  Architecture model;
  ZeroStage stage = ZeroStage::kOne;
  DType dtype = DType::kBFloat16;
  NumericMode numeric_mode = NumericMode::kDeterministic;
  OptimizerConfig optimizer = {.learning_rate = 0.0015};
  ScheduleConfig schedule;  // its total is that of the run
  double clip = 0;          // largest L2 norm of the mean gradient; 0: none
  LossScaleConfig loss_scale;
  int64_t global_batch = 256;
  // Exactly one of them is positive.
  int64_t steps = 0;
  int64_t epochs = 0;
  uint64_t seed = 1;
  std::string algorithms;  // as RZ_ALGO; empty: chosen by the communicator
  std::string transport = "auto";
  std::string report_path;
  std::string reference_path;
  std::string trace_path;
  bool compare = false;  // every stage, and not `stage`

  // Text drawn at the end from a model of text, in bytes, and how.
  int64_t sample_length = 0;
  double temperature = 0.8;

  // Everything all ranks must have alike, as one line.
  std::string AgreementText() const;

  // A hash of it and of what the data set adds, never 0.
  uint64_t AgreementHash(const std::string& of_dataset = "") const;
};

// The flags as the command line has them; Declare them, Parse, then Read.
class TrainFlags {
 public:
  // `flags` keeps pointers into this object.
  void Declare(FlagSet* flags);

  // `environment_algorithms` is RZ_ALGO or empty; --algo beats it. `ranks` is what --config shares
  // batches among.
  //   as ApplyConfigFile, and:
  //   InvalidArgument  --steps and --epochs together, a model that is none, numbers that the
  //                    optimizer does not take; the message names the flag
  absl::StatusOr<TrainConfig> Read(const FlagSet& flags, const std::string& environment_algorithms,
                                   int ranks) const;

 private:
  void DeclareWorkload(FlagSet* flags);
  void DeclareSharding(FlagSet* flags);
  void DeclareOptimizer(FlagSet* flags);
  void DeclareRun(FlagSet* flags);
  // Model and data, and what the other flags are with a text where they are not given.
  absl::Status ReadWorkload(const FlagSet& flags, TrainConfig* config) const;
  void ReadOptimizer(const FlagSet& flags, TrainConfig* config) const;
  // What can be judged once --config has been read.
  absl::Status CheckOptimizer(const FlagSet& flags, TrainConfig* config) const;

  TrainConfig values_;
  std::string model_;
  std::string stage_ = "1";
  std::string shard_group_;
  std::string dtype_ = "bf16";
  std::string numeric_mode_ = "deterministic";
  std::string accumulation_ = "local";
  std::string progress_thread_ = "auto";
  std::string optimizer_ = "AdamW";
  std::string config_path_;
  std::string schedule_ = "constant";
  std::string warmup_ = "log";
  double loss_scale_ = 0;
  int64_t seed_ = 1;
  int64_t sample_length_ = 400;
};

// The data set `config` names: read, or made from the seed to fit the model.
//   as LoadFashionMnist, ReadBible, ReadTextFile and TextDataset, and:
//   InvalidArgument  the model's first or last width does not fit the data, or the global batch is
//                    larger than the training set; the message has both numbers
absl::StatusOr<Dataset> OpenDataset(const TrainConfig& config);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_TRAIN_CONFIG_H_
