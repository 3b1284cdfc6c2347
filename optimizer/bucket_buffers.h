// BucketBuffers: where the gradients of a bucket are put together until they are reduced.
//
// A stage that holds whole gradients has its buckets there. Stages 2 and 3 have a pool of buffers
// of one bucket each, never more than the model has buckets: buckets_in_flight + 1 in stage 2; in
// stage 3, where the buckets of a unit are reduced together once it is released, those of two
// units. A buffer is zero when it is opened.
//
// Threads: the optimizer's.
#ifndef RINGZERO_OPTIMIZER_BUCKET_BUFFERS_H_
#define RINGZERO_OPTIMIZER_BUCKET_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/partition.h"
#include "optimizer/model_state.h"
#include "optimizer/zero_config.h"

namespace rz {

class BucketBuffers {
 public:
  // All arguments outlive it.
  BucketBuffers(Communicator* communicator, const FlatLayout* layout, const Partition* partition,
                const ZeroConfig* config, const ModelState* state);

  // The pool; nothing for a stage with whole gradients.
  //   ResourceExhausted  no memory
  absl::Status Allocate();

  bool pooled() const { return pooled_; }

  // Memory of an open bucket; opens it. Null: all buffers are taken.
  std::byte* Open(const Bucket& bucket);

  // Adds a buffer to the pool, for good.
  //   ResourceExhausted  no memory
  absl::Status Grow();

  // What is to be reduced for the bucket: its memory, or zeros where it was not opened.
  //   ResourceExhausted  no memory for the zeros, which are allocated when first needed
  absl::StatusOr<std::byte*> ToReduce(const Bucket& bucket);

  // The bucket has been reduced: its buffer is free.
  void Close(const Bucket& bucket);

 private:
  static constexpr int kNone = -1;

  absl::StatusOr<CommunicatorBuffer> AllocateOne() const;
  int64_t PoolSize() const;

  Communicator* communicator_;
  const FlatLayout* layout_;
  const Partition* partition_;
  const ZeroConfig* config_;
  const ModelState* state_;
  const bool pooled_;
  std::vector<CommunicatorBuffer> pool_;
  std::vector<int> free_;       // in pool_
  std::vector<int> of_bucket_;  // in pool_, by bucket; kNone where it is not open
  CommunicatorBuffer zeros_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_BUCKET_BUFFERS_H_
