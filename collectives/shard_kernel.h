// ShardKernel: what a rank does to its own part of a sum before anybody else sees it, piece by
// piece while the piece is in the caches: a step of an optimizer needs its gradients no longer, and
// the other ranks need only what it makes of them.
#ifndef RINGZERO_COLLECTIVES_SHARD_KERNEL_H_
#define RINGZERO_COLLECTIVES_SHARD_KERNEL_H_

#include <cstdint>

namespace rz {

class ShardKernel {
 public:
  virtual ~ShardKernel() = default;

  // `elements` [count], of the call's dtype, are elements [offset, offset + count) of this rank's
  // shard, summed over all ranks; what is left there is what the call hands on. All of the shard
  // comes, in ascending order; but for a chunk's last piece, in multiples of 64 bytes.
  virtual void Run(int64_t offset, int64_t count, void* elements) = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARD_KERNEL_H_
