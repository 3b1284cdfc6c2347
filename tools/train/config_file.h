// --config: a configuration in DeepSpeed's keys (docs/configuration.md) under the flags, which beat
// it.
#ifndef RINGZERO_TOOLS_TRAIN_CONFIG_FILE_H_
#define RINGZERO_TOOLS_TRAIN_CONFIG_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tools/flag_set.h"
#include "tools/train/train_config.h"

namespace rz {

// Gives `config` what the text says for `ranks` ranks, but for what `flags` were given; the
// settings say which of the two each value is from.
//   InvalidArgument, Unimplemented  as ParseConfig; a batch size beyond what --global-batch takes
absl::Status ApplyConfig(std::string_view json, const FlagSet& flags, int ranks,
                         TrainConfig* config);

// The same from a file; every message begins with its path.
//   NotFound, Unknown  missing, unreadable
absl::Status ApplyConfigFile(const std::string& path, const FlagSet& flags, int ranks,
                             TrainConfig* config);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_CONFIG_FILE_H_
