#include "optimizer/progress_hold.h"

namespace rz {

absl::Status ProgressHold::Start(const ZeroConfig& config) {
  if (config.progress_thread == ProgressThreadUse::kOff) return absl::OkStatus();
  const bool asked = config.progress_thread == ProgressThreadUse::kOn;
  if (asked && config.shard_group_size != kAllRanks) {
    return absl::UnimplementedError(
        "a progress thread moves one communicator, but groups of ranks (shard_group_size) have "
        "three; leave one of them out");
  }
  if (config.shard_group_size != kAllRanks) return absl::OkStatus();
  const bool pays = OverlapsComputing(config) && communicator_->world_size() > 1 &&
                    !communicator_->shares_memory();
  if (!asked && !pays) return absl::OkStatus();
  const absl::Status started = communicator_->StartProgressThread();
  held_ = started.ok();
  return !asked && absl::IsUnimplemented(started) ? absl::OkStatus() : started;
}

}  // namespace rz
