// All ranks of a job in one thread, each with its communicator, ledger and optimizer, for tests.
#ifndef RINGZERO_OPTIMIZER_SIM_RANKS_H_
#define RINGZERO_OPTIMIZER_SIM_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/types.h"
#include "runtime/memory/memory.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz::testing {

class SimRanks {
 public:
  // Every rank gets `config` (with a ledger of its own) after `change`, where given, had a look.
  static absl::StatusOr<std::unique_ptr<SimRanks>> Create(
      int world, const std::string& algorithms, const std::vector<ParamSpec>& specs,
      const ZeroConfig& config, const std::function<void(int rank, ZeroConfig*)>& change = nullptr,
      uint64_t seed = 1);

  int world() const { return static_cast<int>(optimizers_.size()); }
  ZeroOptimizer& optimizer(int rank) { return *optimizers_[static_cast<size_t>(rank)]; }
  Communicator& communicator(int rank) { return *communicators_[static_cast<size_t>(rank)]; }

  // Initializes all ranks; parameter `index` gets rank 0's values. Their results, by rank.
  std::vector<absl::Status> Initialize(const ZeroOptimizer::Initializer& initializer);

  // Steps all ranks together; learning_rates has one for all or one a rank. Their results, by rank.
  // Without any, the schedule's.
  std::vector<absl::StatusOr<StepReport>> Step(const std::vector<double>& learning_rates = {});

  // Polls all ranks until every one has nothing under way.
  absl::Status PollAll();

  // Rank `rank` dies; the others are told.
  void Kill(int rank) { sim_.Kill(Rank(rank), /*silent=*/false); }

  // Destroys a rank's optimizer, whatever is under way. The rank is not to be used any more.
  void Destroy(int rank) { optimizers_[static_cast<size_t>(rank)].reset(); }

  // Sets element `i` of gradient `index` on `rank`, rounded to the working dtype.
  void SetGradient(int rank, size_t index, size_t i, float value);

  // The working value of element `i` of parameter `index`.
  float Parameter(int rank, size_t index, size_t i);

  // The bits of everything a rank's model and optimizer hold, in flat order, assembled from the
  // shards of all ranks: working parameters of `rank`, then master (but in float32) and the
  // optimizer's states.
  std::string StateBits(int rank);

 private:
  explicit SimRanks(int world, uint64_t seed) : sim_(world, {.seed = seed}) {}

  // `state` gives a rank's part of one.
  std::string FlatBits(
      const std::function<absl::Span<const float>(const ZeroOptimizer&)>& state) const;

  SimWorld sim_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<MemoryLedger>> ledgers_;
  std::vector<std::unique_ptr<ZeroOptimizer>> optimizers_;
};

}  // namespace rz::testing

#endif  // RINGZERO_OPTIMIZER_SIM_RANKS_H_
