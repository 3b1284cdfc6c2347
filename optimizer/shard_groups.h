// ShardGroups: who shares one copy of the model states, as communicators. Consecutive ranks are a
// group, which shards them; ranks of equal place in their groups hold the same shard of it:
//
//   6 ranks in groups of 2:   shard {0 1} {2 3} {4 5}   replica {0 2 4} {1 3 5}
//
// Sources: Zhang et al., "MiCS", 2022; PyTorch's HYBRID_SHARD.
//
// Replicas' operations are waited for only where the rank has nothing more under way in its group
// (gradient_reducer.h), so that it starts what the others of its group want first.
//
// Threads: the communicators'.
#ifndef RINGZERO_OPTIMIZER_SHARD_GROUPS_H_
#define RINGZERO_OPTIMIZER_SHARD_GROUPS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "optimizer/zero_config.h"

namespace rz {

// Ranks of a group, as the config asks for them.
//   InvalidArgument     they do not divide the ranks; the message has both numbers
//   FailedPrecondition  the ranks of a host are asked for, and hosts are not known or do not have
//                       equally many consecutive ranks
absl::StatusOr<int> ShardGroupSize(const ZeroConfig& config, const Communicator& all);

class ShardGroups {
 public:
  // One group of all ranks, of a communicator that outlives this.
  explicit ShardGroups(Communicator* all) : all_(all) {}

  // `shard` has the ranks of this one's group in their order, `replica` those of its place in the
  // order of the groups.
  ShardGroups(Communicator* all, std::unique_ptr<Communicator> shard,
              std::unique_ptr<Communicator> replica)
      : all_(all), shard_(std::move(shard)), replica_(std::move(replica)) {}

  // Groups of `size` ranks, which divides them. Collective, but where that is one group.
  //   otherwise  as Communicator::Split
  static absl::StatusOr<ShardGroups> Split(Communicator* all, int size);

  // Of a rank: which group, and which place in it.
  static int64_t GroupOf(Rank rank, int size) { return rank.value() / size; }
  static int64_t PlaceOf(Rank rank, int size) { return rank.value() % size; }

  Communicator* all() const { return all_; }
  Communicator* shard() const { return shard_ == nullptr ? all_ : shard_.get(); }
  Communicator* replica() const { return replica_.get(); }  // null: there is one group

  int group_size() const { return shard()->world_size(); }
  int group_count() const { return replica_ == nullptr ? 1 : replica_->world_size(); }

  // Payload that this rank has sent so far: in all, and to other groups' replicas.
  int64_t payload() const;
  int64_t payload_between() const;

  // Fails all of them with `cause`.
  void Abort(const absl::Status& cause) const;

  // OK, or the first cause of failure: what fails in one of them fails in all.
  absl::Status status() const;

 private:
  Communicator* all_;
  std::unique_ptr<Communicator> shard_;
  std::unique_ptr<Communicator> replica_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_SHARD_GROUPS_H_
