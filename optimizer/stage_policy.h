// StagePolicy: what a stage does with one bucket. The step is the same pipeline for all of them
// (gradient_reducer.h, step_pipeline.h); a policy says how a bucket's gradients are reduced, which
// part of it this rank updates, and how the new parameters get back to everybody.
//
// Threads: the optimizer's. Started operations own the memory they were given until they are done.
#ifndef RINGZERO_OPTIMIZER_STAGE_POLICY_H_
#define RINGZERO_OPTIMIZER_STAGE_POLICY_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/gathered_units.h"
#include "optimizer/kernels/optimizer_kernel.h"
#include "optimizer/layout/group_runs.h"
#include "optimizer/layout/partition.h"
#include "optimizer/model_state.h"
#include "optimizer/step_timeline.h"
#include "optimizer/zero_config.h"
#include "runtime/base/dtype.h"

namespace rz {

// Of the reduced gradients of this rank's chunk in a tile.
struct ChunkStats {
  static constexpr int64_t kNoElement = std::numeric_limits<int64_t>::max();

  double sum_of_squares = 0;
  int64_t non_finite_count = 0;
  int64_t first_non_finite = kNoElement;  // in the flat space

  // Takes in those of `count` elements from element `flat` on that are not finite.
  void AddNonFinite(DType dtype, const void* elements, int64_t flat, int64_t count);
};

// What every policy works with. All pointers outlive it.
struct StageParts {
  Communicator* communicator;  // of those who shard the states
  const Partition* partition;
  const ModelState* state;
  const GatheredUnits* units;
  const GroupRuns* groups;
  StepTimeline* timeline;
  DType dtype;
  DType gradient_dtype;    // of the gradients that are reduced
  DType applied_dtype;     // of the gradients that the kernel takes
  ReduceOp op;             // what makes one gradient of all ranks'
  double premul = 1;       // of ReduceOp::kPremulSum
  bool accumulates_shard;  // reduced gradients are added up in the state's accumulator
  OptimizerKernel kernel;

  CallOptions call() const {
    return {.tile_chunk = partition->tile_chunk(), .premul = {.floating = premul}};
  }

  // There is a master of these parameters beside the working ones: what is frozen has none.
  bool HasMaster(Range flat) const {
    return state->has_master() && flat.offset < partition->padded_elements();
  }

  // The optimizer on a piece of the flat space, with which the addresses begin: run by run of its
  // groups.
  void UpdatePiece(Range flat, absl::Span<const StepConstants> step, const void* gradient,
                   float* master, const StateAddresses& states, void* working) const;

  // Of a chunk whose gradient is at `gradient` as it is to be applied.
  ChunkStats InspectChunk(Range flat, const void* gradient) const;

  // Starts the all_reduce of a bucket of the whole gradients, in place.
  absl::StatusOr<Operation> AllReduce(const Bucket& bucket, void* gradients) const;
};

class StagePolicy {
 public:
  virtual ~StagePolicy() = default;

  // Starts the reduction of the bucket's gradients over all ranks, if it is to be on its own. On
  // all ranks, bucket by bucket. `gradients` [bucket.flat.count]: where the stage holds whole ones,
  // those.
  virtual absl::StatusOr<std::optional<Operation>> StartReduce(const Bucket& bucket,
                                                               void* gradients) = 0;

  // Adds the bucket's reduced gradients, as far as this rank owns them, to the accumulator, or with
  // `first` sets it to them.
  virtual void Accumulate(const Bucket& bucket, bool first) = 0;

  // Of the gradient of this rank's chunk in `tile` as it is to be applied, after its bucket's
  // reduction.
  virtual ChunkStats Inspect(int64_t tile) const = 0;

  // The optimizer on what this rank owns of the bucket, by group. Local.
  virtual void Update(const Bucket& bucket, absl::Span<const StepConstants> step) = 0;

  // Starts bringing the bucket's new parameters to all ranks; nothing where they are there already
  // or are gathered before their use.
  virtual absl::StatusOr<std::optional<Operation>> StartGather(const Bucket& bucket) = 0;

  // A step may end while what StartGather gave is under way: it moves what has been updated, and
  // updates nothing itself.
  virtual bool MayDeferGathers() const { return true; }

  // Sets parameters of the flat range from fp32 values: the working ones, and the master where this
  // rank owns it.
  virtual void SetParameters(Range flat, const float* values) = 0;
};

// The policy of a stage that ValidateConfig has accepted.
std::unique_ptr<StagePolicy> MakeStagePolicy(const ZeroConfig& config, StageParts parts);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STAGE_POLICY_H_
