// StagePolicy: what a stage does with one bucket. The step is the same pipeline for all of them
// (step_pipeline.h); a policy says how a bucket's gradients are reduced, which part of it this rank
// updates, and how the new parameters get back to everybody.
//
// Threads: the optimizer's. Started operations own the memory they were given until they are done.
#ifndef RINGZERO_OPTIMIZER_STAGE_POLICY_H_
#define RINGZERO_OPTIMIZER_STAGE_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "optimizer/kernels/optimizer_kernel.h"
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
  DType dtype;
  OptimizerKernel kernel;

  CallOptions call() const { return {.tile_chunk = partition->tile_chunk()}; }

  // Starts the mean of a bucket of the whole gradients over all ranks, in place.
  absl::StatusOr<Operation> AllReduceGradients(const Bucket& bucket) const;
};

class StagePolicy {
 public:
  virtual ~StagePolicy() = default;

  // Starts the mean of the bucket's gradients over all ranks. On all ranks, bucket by bucket.
  virtual absl::StatusOr<Operation> StartReduce(const Bucket& bucket) = 0;

  // The reduced gradient of this rank's chunk in `tile`, after its bucket's reduction.
  virtual const void* ReducedChunk(int64_t tile) const = 0;

  // The optimizer on what this rank owns of the bucket. Local.
  virtual void Update(const Bucket& bucket, const StepConstants& step) = 0;

  // Starts bringing the bucket's new parameters to all ranks; nothing where they are there already.
  virtual absl::StatusOr<std::optional<Operation>> StartGather(const Bucket& bucket) = 0;

  // Sets parameters of the flat range from fp32 values: the working ones, and the master where this
  // rank owns it.
  virtual void SetParameters(Range flat, const float* values) = 0;
};

// The policy of a stage that ValidateConfig has accepted.
std::unique_ptr<StagePolicy> MakeStagePolicy(ZeroStage stage, StageParts parts);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STAGE_POLICY_H_
