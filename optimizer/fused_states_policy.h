// Stage 1 where ranks share memory, in two passes over the gradients of all ranks
// (docs/decisions/0020). The first sums this rank's shard in the caches and inspects it there; the
// sum is not kept. The second, after the ranks have agreed on the step, sums it again, updates the
// states, and stores the new working parameters into every rank's copy. Between them the gradients
// stay as they are, and a shard of their sums is not held.
//
// Where gradients are not to be inspected there is the second pass alone.
#ifndef RINGZERO_OPTIMIZER_FUSED_STATES_POLICY_H_
#define RINGZERO_OPTIMIZER_FUSED_STATES_POLICY_H_

#include <cstdint>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/shard_kernel.h"
#include "optimizer/kernels/gradient_stats.h"
#include "optimizer/sharded_states_policy.h"

namespace rz {

class FusedStatesPolicy final : public ShardedStatesPolicy {
 public:
  FusedStatesPolicy(StageParts parts, const ZeroConfig& config);

  absl::StatusOr<std::optional<Operation>> StartReduce(const Bucket& bucket,
                                                       void* gradients) override;
  ChunkStats Inspect(int64_t tile) const override { return stats_[static_cast<size_t>(tile)]; }
  // Made known only, by the first bucket: the bucket's gather makes the update, and those of others
  // may be under way in the progress thread.
  void Update(const Bucket& bucket, absl::Span<const StepConstants> step) override {
    if (bucket.index == 0) step_ = step;
  }
  absl::StatusOr<std::optional<Operation>> StartGather(const Bucket& bucket) override;
  bool MayDeferGathers() const override { return false; }

 private:
  // Pieces of a bucket's shard, each within the chunk of one tile.
  class Pass : public ShardKernel {
   public:
    Pass(FusedStatesPolicy* policy, const Bucket& bucket) : policy_(policy), bucket_(bucket) {}
    void Run(int64_t offset, int64_t count, void* elements) final;

   private:
    // `piece` in the flat space, of this rank's chunk in `tile`.
    virtual void Work(int64_t tile, Range piece, void* elements) = 0;

   protected:
    FusedStatesPolicy* const policy_;
    const Bucket bucket_;
  };
  class Inspection final : public Pass {
   public:
    using Pass::Pass;

   private:
    void Work(int64_t tile, Range piece, void* elements) override;

    SquaresSum squares_;  // of the chunk so far
  };
  class Renewal final : public Pass {
   public:
    using Pass::Pass;

   private:
    void Work(int64_t tile, Range piece, void* elements) override;
  };

  CallOptions CallWith(ShardKernel* kernel) const;

  const bool inspects_;
  std::vector<Inspection> inspections_;  // by bucket
  std::vector<Renewal> renewals_;        // likewise
  std::vector<ChunkStats> stats_;        // by tile
  absl::Span<const StepConstants> step_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_FUSED_STATES_POLICY_H_
