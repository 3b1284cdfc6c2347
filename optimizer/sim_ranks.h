// All ranks of a job in one thread, each with its communicator, ledger and optimizer, for tests.
#ifndef RINGZERO_OPTIMIZER_SIM_RANKS_H_
#define RINGZERO_OPTIMIZER_SIM_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/layout/partition.h"
#include "optimizer/shard_groups.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/types.h"
#include "runtime/memory/memory.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz::testing {

class SimRanks {
 public:
  // What a rank does, and when it goes on to the next.
  struct Action {
    std::function<absl::Status(ZeroOptimizer&)> start;
    std::function<bool(const ZeroOptimizer&)> is_done;
  };
  using Script = std::vector<Action>;

  // In the place of algorithms: the ranks share memory.
  static constexpr char kSharedMemory[] = "shared memory";

  // Every rank gets `config` (with a ledger of its own and the world's clock) after `change`, where
  // given, had a look. Groups are made as it says, within and over groups with the same algorithms.
  static absl::StatusOr<std::unique_ptr<SimRanks>> Create(
      int world, const std::string& algorithms, const std::vector<ParamSpec>& specs,
      const ZeroConfig& config, const std::function<void(int rank, ZeroConfig*)>& change = nullptr,
      uint64_t seed = 1);

  int world() const { return static_cast<int>(optimizers_.size()); }
  ZeroOptimizer& optimizer(int rank) { return *optimizers_[static_cast<size_t>(rank)]; }
  Communicator& communicator(int rank) { return *communicators_[static_cast<size_t>(rank)]; }

  // Initializes all ranks; parameter `index` gets rank 0's values. Their results, by rank.
  std::vector<absl::Status> Initialize(const ZeroOptimizer::Initializer& initializer);

  // The order in which a rank announces parameters (in stage 3 those of each unit): a permutation
  // of all, backward's by default.
  using Order = std::function<std::vector<size_t>(int rank, size_t parameters)>;
  void set_order(Order order) { order_ = std::move(order); }

  // Announces what was set, and ends the micro-step on all ranks: in stage 3 with a forward and a
  // backward pass over all units, otherwise each rank in its order and at its own pace. A gradient
  // none of whose elements was set is not announced. Results by rank.
  std::vector<absl::Status> EndMicroStep();

  // Each rank goes through its script, as soon as it can. Results by rank.
  std::vector<absl::Status> Go(std::vector<Script> scripts);

  // Gathers, or releases, a unit on all ranks. Results by rank.
  std::vector<absl::Status> Gather(size_t unit, Pass pass);
  std::vector<absl::Status> Release(size_t unit, Pass pass);

  // The same, and steps all ranks; learning_rates has one for all or one a rank, or none: the
  // schedule's. Their results, by rank.
  std::vector<absl::StatusOr<StepReport>> Step(const std::vector<double>& learning_rates = {});

  // The same with whatever a rank says of its step.
  using Options = std::function<StepOptions(size_t rank)>;
  std::vector<absl::StatusOr<StepReport>> StepWith(const Options& options);

  // Polls all ranks until every one has nothing under way.
  absl::Status PollAll();

  // Polls the program's own operations, one a rank, to their end, and the optimizers not.
  absl::Status Await(absl::Span<Operation> operations);

  // Rank `rank` dies; the others are told.
  void Kill(int rank) { sim_.Kill(Rank(rank), /*silent=*/false); }

  // Destroys a rank's optimizer, whatever is under way. The rank is not to be used any more.
  void Destroy(int rank) { optimizers_[static_cast<size_t>(rank)].reset(); }

  // Sets element `i` of gradient `index` on `rank`, rounded to the gradients' dtype.
  void SetGradient(int rank, size_t index, size_t i, float value);

  // The working value of element `i` of parameter `index`.
  float Parameter(int rank, size_t index, size_t i);

  // The bits of everything a rank's model and optimizer hold, in flat order, assembled from the
  // shards of all ranks of its group: working parameters of `rank`, then master (but in float32)
  // and the optimizer's states.
  std::string StateBits(int rank);

 private:
  absl::Status ShareMemory();

  explicit SimRanks(int world, uint64_t seed) : sim_(world, {.seed = seed}) {}

  // Makes groups of `size` ranks.
  absl::Status Split(int size);
  absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> SplitAll(
      const std::function<int64_t(int rank)>& colour);

  // Lets each rank go through its script, as soon as it can: it may have to wait for what others do
  // later. What went wrong is added to its result.
  void Run(std::vector<Script> scripts, std::vector<absl::Status>* results);

  // Announces what was set of parameters [first, first + count).
  void AppendGradients(int rank, size_t first, size_t count, Script* script);
  // All of a micro-step but its end.
  Script MicroStep(int rank);
  void RunMicroStep(const std::function<absl::Status(size_t rank)>& then,
                    std::vector<absl::Status>* results);

  // Who owns a place among the ranks of a rank's group.
  const ZeroOptimizer& Owner(int rank, ShardPlace place) const;

  // In one thread nobody can wait for those that are still on their way.
  void AwaitParameters();

  // Element `i` of parameter `index` in the shard of whoever owns it in a rank's group.
  const std::byte* OwnedElement(int rank, size_t index, size_t i) const;

  // `state` gives a rank's part of one.
  std::string FlatBits(
      int rank, const std::function<absl::Span<const float>(const ZeroOptimizer&)>& state) const;

  SimWorld sim_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<MemoryLedger>> ledgers_;
  std::vector<std::optional<ShardGroups>> groups_;  // until the optimizers have them
  std::vector<std::unique_ptr<ZeroOptimizer>> optimizers_;
  std::vector<std::map<size_t, std::vector<float>>>
      gradients_;  // by rank and parameter, to announce
  Order order_;
};

}  // namespace rz::testing

#endif  // RINGZERO_OPTIMIZER_SIM_RANKS_H_
