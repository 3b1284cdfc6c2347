#include "collectives/schedule/canonical_sum.h"

#include "collectives/schedule/rank_arithmetic.h"

namespace rz {

void AppendCanonicalSum(std::vector<LocalStep>& steps, int32_t block, int32_t world, BlockRef sum,
                        const std::function<BlockRef(int32_t)>& input_of) {
  BlockRef partial = input_of(RankAt(block, 1, world));
  if (world == 1) {
    steps.push_back({LocalKind::kFinish, block, Output(block), partial, {}});
    return;
  }
  for (int32_t distance = 2; distance <= world; ++distance) {
    const bool last = distance == world;
    const BlockRef dst = last ? Output(block) : sum;
    steps.push_back({last ? LocalKind::kReduceFinish : LocalKind::kReduce, block, dst, partial,
                     input_of(RankAt(block, distance, world)), /*a_is_input=*/distance == 2});
    partial = dst;
  }
}

}  // namespace rz
