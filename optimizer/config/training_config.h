// TrainingConfig: a configuration file in DeepSpeed's words, read for a number of ranks.
// docs/configuration.md lists the keys.
#ifndef RINGZERO_OPTIMIZER_CONFIG_TRAINING_CONFIG_H_
#define RINGZERO_OPTIMIZER_CONFIG_TRAINING_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "optimizer/config/batch_size.h"
#include "optimizer/config/schema_reader.h"
#include "optimizer/group_rules.h"
#include "optimizer/zero_config.h"

namespace rz {

// A larger configuration is refused unread.
inline constexpr size_t kMaxConfigBytes = size_t{1} << 20;

struct TrainingConfig {
  ZeroConfig zero;

  // Which parameters are of zero.groups[1] and on.
  std::vector<GroupRule> group_rules;
  BatchSizes batch;
  int64_t steps_per_print = 0;
  bool wall_clock_breakdown = false;
  bool memory_breakdown = false;

  // Every key that applies, with its value and where that came from.
  std::vector<Setting> settings;
};

// What a stage cannot do yet is refused by ValidateConfig, when an optimizer is created.
//   InvalidArgument  no JSON object; a parameter group that lacks its match or has what the
//                    optimizer has not; steps_per_print below 0; or as ReadObject, SolveBatchSizes,
//                    ValidateOptimizer, ValidateSchedule and ValidateLossScale
//   Unimplemented    as ReadObject
// `train_batch`: the samples of a step, whatever the text says of them; ShareBatch shares them
// then.
absl::StatusOr<TrainingConfig> ParseConfig(std::string_view json, int ranks,
                                           std::optional<int64_t> train_batch = std::nullopt);

// Gives the settings that follow from others, where nobody set them, what they are in `zero`: again
// where a program has changed that.
void ShowWorkedOut(const ZeroConfig& zero, std::vector<Setting>* settings);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_CONFIG_TRAINING_CONFIG_H_
