// Call: one collective call as the caller gave it. The methods of Communicator make one of their
// arguments; StartGroup takes several.
#ifndef RINGZERO_COLLECTIVES_CALL_H_
#define RINGZERO_COLLECTIVES_CALL_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "collectives/collective.h"
#include "collectives/kernels/reduce_kernel.h"
#include "collectives/reduce_function.h"
#include "collectives/shard_kernel.h"
#include "runtime/base/dtype.h"
#include "runtime/base/types.h"

namespace rz {

// What a call may say beside its buffers. All ranks say the same.
struct CallOptions {
  // Elements of one rank's chunk in a tile; 0: one tile of everything (see ChunkLayout). Of
  // all_reduce, reduce_scatter, all_gather, gather and scatter; none of the v variants.
  int64_t tile_chunk = 0;

  // How sums round, if not as the communicator's options say.
  std::optional<NumericMode> numeric_mode = std::nullopt;

  // Of ReduceOp::kPremulSum.
  PremulFactor premul = {};

  // Of ReduceOp::kFunction. Stays until the call is done.
  ReduceFunction* function = nullptr;

  // Run by each rank on its shard of an all_reduce, which then gives all ranks what the kernels
  // made of the sums; or of a reduce_scatter, which then gives nobody anything: its receive buffer
  // is not looked at. Through memory that all ranks share (Communicator::RunsShardKernels), and not
  // in a v variant. Stays until the call is done.
  ShardKernel* kernel = nullptr;
};

struct Call {
  Collective collective = Collective::kBarrier;
  const void* send = nullptr;  // of a broadcast: the buffer, like recv
  void* recv = nullptr;

  // Elements: of the whole buffer that is reduced, spread or put together; of all_to_all: for each
  // rank. The v variants have `counts` instead.
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  Rank root = Rank(0);
  CallOptions options = {};

  // What ReduceOp::kAvg divides by; 0: the number of ranks. Of the calls that a hierarchy makes.
  int64_t divisor = 0;

  // V variants: one count a rank; of all_to_all_v what goes to each rank, and in recv_counts what
  // comes from each. Read during the call only.
  bool has_counts = false;
  absl::Span<const int64_t> counts = {};
  absl::Span<const int64_t> recv_counts = {};
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_CALL_H_
