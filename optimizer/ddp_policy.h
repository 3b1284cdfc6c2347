// Stage 0: every rank holds all states and makes the whole update. Gradients are all-reduced in
// place with the tiles of the sharded stages, so that their sums have the same bits.
#ifndef RINGZERO_OPTIMIZER_DDP_POLICY_H_
#define RINGZERO_OPTIMIZER_DDP_POLICY_H_

#include "optimizer/stage_policy.h"

namespace rz {

class DdpPolicy : public StagePolicy {
 public:
  explicit DdpPolicy(StageParts parts) : parts_(parts) {}

  absl::StatusOr<std::optional<Operation>> StartReduce(const Bucket& bucket,
                                                       void* gradients) override;
  void Accumulate(const Bucket& bucket, bool first) override;
  ChunkStats Inspect(int64_t tile) const override;
  void Update(const Bucket& bucket, absl::Span<const StepConstants> step) override;
  absl::StatusOr<std::optional<Operation>> StartGather(const Bucket& bucket) override;
  void SetParameters(Range flat, const float* values) override;

 private:
  const void* GradientAt(int64_t flat_index) const;

  const StageParts parts_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_DDP_POLICY_H_
