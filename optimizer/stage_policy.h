// StagePolicy: what a stage does with one bucket. The step is the same pipeline for all of them
// (gradient_reducer.h, step_pipeline.h); a policy says how a bucket's gradients are reduced, which
// part of it this rank updates, and how the new parameters get back to everybody.
//
// Threads: the optimizer's. Started operations own the memory they were given until they are done.
#ifndef RINGZERO_OPTIMIZER_STAGE_POLICY_H_
#define RINGZERO_OPTIMIZER_STAGE_POLICY_H_

#include <cstdint>
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
#include "optimizer/zero_config.h"
#include "runtime/base/dtype.h"

namespace rz {

// What every policy works with. All pointers outlive it.
struct StageParts {
  Communicator* communicator;
  const Partition* partition;
  const ModelState* state;
  const GatheredUnits* units;
  const GroupRuns* groups;
  DType dtype;
  DType gradient_dtype;    // of the gradients that are reduced
  DType applied_dtype;     // of the gradients that the kernel takes
  ReduceOp op;             // what makes one gradient of all ranks'
  bool accumulates_shard;  // reduced gradients are added up in the state's accumulator
  OptimizerKernel kernel;

  CallOptions call() const { return {.tile_chunk = partition->tile_chunk()}; }

  // There is a master of these parameters beside the working ones: what is frozen has none.
  bool HasMaster(Range flat) const {
    return state->has_master() && flat.offset < partition->padded_elements();
  }

  // The optimizer on a piece of the flat space, with which the addresses begin: run by run of its
  // groups.
  void UpdatePiece(Range flat, absl::Span<const StepConstants> step, const void* gradient,
                   float* master, const StateAddresses& states, void* working) const;

  // Starts the all_reduce of a bucket of the whole gradients, in place.
  absl::StatusOr<Operation> AllReduce(const Bucket& bucket, void* gradients) const;
};

class StagePolicy {
 public:
  virtual ~StagePolicy() = default;

  // Starts the reduction of the bucket's gradients over all ranks. On all ranks, bucket by bucket.
  // `gradients` [bucket.flat.count]: where the stage holds whole ones, those.
  virtual absl::StatusOr<Operation> StartReduce(const Bucket& bucket, void* gradients) = 0;

  // Adds the bucket's reduced gradients, as far as this rank owns them, to the accumulator, or with
  // `first` sets it to them.
  virtual void Accumulate(const Bucket& bucket, bool first) = 0;

  // The gradient of this rank's chunk in `tile` as it is to be applied, after its bucket's
  // reduction: AppliedGradientDType(config).
  virtual const void* GradientChunk(int64_t tile) const = 0;

  // The optimizer on what this rank owns of the bucket, by group. Local.
  virtual void Update(const Bucket& bucket, absl::Span<const StepConstants> step) = 0;

  // Starts bringing the bucket's new parameters to all ranks; nothing where they are there already
  // or are gathered before their use.
  virtual absl::StatusOr<std::optional<Operation>> StartGather(const Bucket& bucket) = 0;

  // Sets parameters of the flat range from fp32 values: the working ones, and the master where this
  // rank owns it.
  virtual void SetParameters(Range flat, const float* values) = 0;
};

// The policy of a stage that ValidateConfig has accepted.
std::unique_ptr<StagePolicy> MakeStagePolicy(ZeroStage stage, StageParts parts);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STAGE_POLICY_H_
