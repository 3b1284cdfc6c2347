// Communicator: collective operations among the ranks of a job.
//
// Every rank calls the same operations in the same order with the same counts, dtypes and ops. An
// operation starts at its call, moves whenever anything on the communicator is polled or waited
// for, and ends with a status; several may be in flight. Wait has a deadline always. After the
// first failure the communicator is failed for good, and its transport with it: every operation
// under way and every later call returns that first cause, and buffers of operations under way hold
// unspecified bytes.
//
// Counts are elements, 64-bit, and may be zero or anything else. Memory belongs to the operation
// until it has completed. Threads: one owner thread calls everything; Abort may come from any.
#ifndef RINGZERO_COLLECTIVES_COMMUNICATOR_H_
#define RINGZERO_COLLECTIVES_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/chunk_layout.h"
#include "collectives/wire_counters.h"
#include "runtime/base/clock.h"
#include "runtime/base/dtype.h"
#include "runtime/base/types.h"
#include "runtime/transport/transport.h"

namespace rz {

struct CommunicatorOptions {
  // How sums round unless a call says otherwise.
  NumericMode numeric_mode = NumericMode::kDeterministic;

  // `collective:algorithm[,...]` as in RZ_ALGO, e.g. "reduce_scatter:ring"; empty: chosen by us.
  std::string algorithms;

  // Deadline of an operation that is waited for without one.
  absl::Duration operation_timeout = absl::Seconds(300);

  // A lane carries at most this many bytes of one rank's chunk (a bound for scratch, and the grain
  // in which transfer and reduction overlap). At least 64. Results do not depend on it, but all
  // ranks give the same.
  size_t slice_bytes = size_t{256} << 10;

  // Lanes of one operation that may be under way together: 1 .. 64.
  int lanes_in_flight = 4;

  // Distinguishes communicators over the same transport: 0 .. 255.
  uint32_t id = 0;

  const Clock* clock = Clock::Steady();
};

// What a call may say beside its buffers.
struct CallOptions {
  // Elements of one rank's chunk in a tile; 0: one tile of everything (see ChunkLayout). All ranks
  // pass the same.
  int64_t tile_chunk = 0;
};

class Operation;

class Communicator {
 public:
  // The transport is connected and outlives the communicator.
  //   InvalidArgument  an option that cannot be (unknown algorithm, one that breaks the mode, a
  //                    number out of its range)
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(Transport* transport,
                                                              CommunicatorOptions options);

  // Operations still under way are cancelled, and the transport with them.
  ~Communicator();

  Rank rank() const;
  int world_size() const;

  // Non-blocking forms.
  //   InvalidArgument  seen before any traffic: null buffer, overlap other than in place, negative
  //                    count or one whose bytes overflow, root outside the world, avg of integers.
  //                    The communicator stays usable
  //   otherwise        the first cause of failure

  // recv[i] = op over all ranks of send[i], i < count. In place where send == recv.
  absl::StatusOr<Operation> StartAllReduce(const void* send, void* recv, int64_t count, DType dtype,
                                           ReduceOp op, CallOptions call = {});

  // ChunkLayout(count, world, tile_chunk) says which elements of send[0, count) are whose; recv is
  // this rank's shard of them, reduced. In place where recv == send + offset of this rank's chunk
  // (single tile only).
  absl::StatusOr<Operation> StartReduceScatter(const void* send, void* recv, int64_t count,
                                               DType dtype, ReduceOp op, CallOptions call = {});

  // The inverse: send is this rank's shard, recv[0, count) is made of all ranks' shards. In place
  // where send == recv + offset of this rank's chunk (single tile only).
  absl::StatusOr<Operation> StartAllGather(const void* send, void* recv, int64_t count, DType dtype,
                                           CallOptions call = {});

  // buffer[0, count) of `root` arrives in everybody's buffer.
  absl::StatusOr<Operation> StartBroadcast(void* buffer, int64_t count, DType dtype, Rank root);

  // Completes after every rank has called it.
  absl::StatusOr<Operation> StartBarrier();

  // Blocking forms: start and wait for options.operation_timeout.
  absl::Status AllReduce(const void* send, void* recv, int64_t count, DType dtype, ReduceOp op,
                         CallOptions call = {});
  absl::Status ReduceScatter(const void* send, void* recv, int64_t count, DType dtype, ReduceOp op,
                             CallOptions call = {});
  absl::Status AllGather(const void* send, void* recv, int64_t count, DType dtype,
                         CallOptions call = {});
  absl::Status Broadcast(void* buffer, int64_t count, DType dtype, Rank root);
  absl::Status Barrier();

  // Fails the communicator with `cause` (the first wins) and aborts its transport. Any thread.
  void Abort(absl::Status cause);

  // OK, or the first cause of failure.
  absl::Status status() const;

  // Payload this rank has sent so far, by collective.
  const WireCounters& wire_counters() const;

  // The algorithm that carries `collective` ("reduce_scatter", ...) of `dtype`, e.g. "ring
  // (float32 partial sums)".
  std::string AlgorithmFor(std::string_view collective, DType dtype) const;

 private:
  friend class Operation;
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A started operation: a handle, to be used while its communicator lives. Dropping one that is
// under way lets the operation go on (its memory must stay).
class Operation {
 public:
  // Moves everything on the communicator a bit; true when this operation has completed. Never
  // blocks.
  bool Poll();

  bool done() const;

  // The result once done; FailedPrecondition before.
  absl::Status status() const;

  // Polls and sleeps until done, and returns the result.
  //   DeadlineExceeded  not done in time; the message says what it waits for. Fails the
  //                     communicator: this rank's part cannot be taken back
  //   otherwise         the first cause of failure
  absl::Status Wait(absl::Duration timeout);
  // With the communicator's operation_timeout.
  absl::Status Wait();

 private:
  friend class Communicator;
  Operation(Communicator::Impl* communicator, int64_t number)
      : communicator_(communicator), number_(number) {}

  Communicator::Impl* communicator_;
  int64_t number_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_COMMUNICATOR_H_
