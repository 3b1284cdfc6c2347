#include "optimizer/shard_groups.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace rz {

absl::StatusOr<int> ShardGroupSize(const ZeroConfig& config, const Communicator& all) {
  const int ranks = all.world_size();
  int64_t size = config.shard_group_size;
  if (size == kAllRanks) return ranks;
  if (size == kRanksOfHost) {
    size = all.ranks_of_each_host();
    if (size == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "shard_group_size is to be the ranks of a host, but of the ", ranks,
          " ranks it is not known which share one, or hosts do not have equally many consecutive "
          "ranks; say how many ranks a group has"));
    }
  }
  if (size <= ranks && ranks % size == 0) return static_cast<int>(size);
  return absl::InvalidArgumentError(
      absl::StrCat("shard_group_size is ", size, ", which does not divide the ", ranks,
                   ranks == 1 ? " rank" : " ranks", "; choose a divisor of that"));
}

absl::StatusOr<ShardGroups> ShardGroups::Split(Communicator* all, int size) {
  if (size == all->world_size()) return ShardGroups(all);
  const int64_t group = GroupOf(all->rank(), size);
  const int64_t place = PlaceOf(all->rank(), size);
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> shard, all->Split(group, place));
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> replica, all->Split(place, group));
  return ShardGroups(all, std::move(shard), std::move(replica));
}

int64_t ShardGroups::payload_between() const {
  return replica_ == nullptr ? 0 : replica_->wire_counters().payload();
}

int64_t ShardGroups::payload() const {
  const int64_t within = shard_ == nullptr ? 0 : shard_->wire_counters().payload();
  return all_->wire_counters().payload() + within + payload_between();
}

void ShardGroups::Abort(const absl::Status& cause) const {
  all_->Abort(cause);
  if (shard_ != nullptr) shard_->Abort(cause);
  if (replica_ != nullptr) replica_->Abort(cause);
}

absl::Status ShardGroups::status() const {
  for (const Communicator* one : {all_, shard_.get(), replica_.get()}) {
    if (one == nullptr) continue;
    const absl::Status status = one->status();
    if (status.ok()) continue;
    Abort(status);
    return status;
  }
  return absl::OkStatus();
}

}  // namespace rz
