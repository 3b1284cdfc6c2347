// Communicator: collective operations among the ranks of a job.
//
// Every rank calls the same operations in the same order with the same counts, dtypes, ops, roots
// and options. An operation starts at its call, moves whenever anything on a communicator of its
// transport is polled or waited for, and ends with a status; several may be in flight, and waited
// for in any order. Wait has a deadline always. Where ranks make different calls, every rank with
// an operation under way fails with FailedPrecondition naming two ranks and both calls, and one
// that has nothing under way at its next call (the order among several communicators is not
// compared: there the deadline ends it). After the first failure the communicator is failed for
// good, and its transport with it: every operation under way and every later call returns that
// first cause, and buffers of operations under way hold unspecified bytes.
//
// Counts are elements, 64-bit, and may be zero or anything else. The even collectives split what
// does not divide evenly so that the first ranks get one element more (ChunkLayout). In a v variant
// each rank's block has a count of its own, also zero, and the blocks stand packed in the order of
// ranks; all ranks pass the same counts, but for all_to_all_v.
//
// Sums: what NumericMode promises. The canonical sum of an element that rank r owns in the even (or
// the v) split goes from rank r + 1 round to r; reduce has the bits of all_reduce, whatever its
// root. Their errors, for inputs x of N ranks and without overflow: in deterministic mode at most
// half an ulp of the result and (N-1) u sum|x| of the accumulator's u (2^-24 for 16- and 8-bit
// floats); in fast mode at most (N-1) u sum|x| of the wire's u (2^-8 for bfloat16, 2^-11 for
// float16), whatever the algorithm (reduce_kernel.h says why). In stages a host's sum is rounded to
// the wire once, and the sums of H hosts are added as those of H ranks: at most H u sum|x|, and H <
// N. An average is divided once, by N, when everything is summed. Memory belongs to the operation
// until it has completed. Threads: one owner thread calls everything; Abort may come from any.
// Where StartProgressThread has been called, a thread of the communicator's moves operations
// whenever the owner is not inside a call.
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
#include "absl/types/span.h"
#include "collectives/call.h"
#include "collectives/chunk_layout.h"
#include "collectives/cost_model.h"
#include "collectives/limits.h"
#include "collectives/progress_thread.h"
#include "collectives/selection.h"
#include "collectives/wire_counters.h"
#include "runtime/base/clock.h"
#include "runtime/base/dtype.h"
#include "runtime/base/types.h"
#include "runtime/memory/memory.h"
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
  // in which transfer and reduction overlap): 64 bytes to 1 GiB. Results do not depend on it, but
  // all ranks give the same.
  size_t slice_bytes = kDefaultSliceBytes;

  // Lanes of one operation that may be under way together: 1 .. 64.
  int lanes_in_flight = kDefaultLanesInFlight;

  // A slot of shared memory, of which a rank has eight (see StartShareMemory): at least 64 a rank.
  // All ranks give the same.
  size_t shared_slot_bytes = size_t{256} << 10;

  // Whether others may copy large private buffers of a rank that shares memory out of its process
  // (process_vm_readv), where the system lets all of them: faster than through slots.
  bool shared_fetch = true;

  // Pauses of a rank that waits in shared memory before it gives its core away again and again, and
  // then sleeps; a pause is some 10 to 50 ns. Unset: 2000, or 1 where the ranks of this host,
  // those outside a communicator that was split included, outnumber the cores they may run on.
  std::optional<int> shared_spins;

  // Distinguishes communicators over the same transport: 0 .. 255.
  uint32_t id = 0;

  // What carries the messages, for the choice of algorithms: all ranks say the same. Ranks that
  // StartShareMemory finds not to share memory take it for kNetwork from then on.
  LinkKind link = LinkKind::kSharedMemory;

  // Notices where ranks make different calls, and keeps a record of the last ones. Off, a rank that
  // is wrong hangs the others or corrupts their data: for measuring what this costs. All ranks say
  // the same.
  bool check_calls = true;

  // Where the flight record is written on failure and on SIGUSR2; empty: RZ_FLIGHT_DIR, and nowhere
  // where that is not set.
  std::string flight_dir;

  const Clock* clock = Clock::Steady();
};

struct FlightRecord;

class Operation;
class CommunicatorBuffer;
class ShareOperation;
class SplitOperation;

class Communicator {
 public:
  // The transport is connected and outlives the communicator.
  //   InvalidArgument  an option that cannot be (unknown algorithm, one that breaks the mode, a
  //                    number out of its range)
  //   AlreadyExists    the transport has a communicator with this id
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(Transport* transport,
                                                              CommunicatorOptions options);

  // Operations still under way are cancelled, and the transport with them.
  ~Communicator();

  Rank rank() const;
  int world_size() const;

  // Non-blocking forms.
  //   InvalidArgument  seen before any traffic: null buffer, overlap other than in place, counts
  //                    that are negative, too few or whose bytes overflow, root or peer outside the
  //                    world, avg of integers, an algorithm asked for that cannot carry the call.
  //                    The communicator stays usable
  //   otherwise        the first cause of failure

  // recv[i] = op over all ranks of send[i], i < count. In place where send == recv.
  absl::StatusOr<Operation> StartAllReduce(const void* send, void* recv, int64_t count, DType dtype,
                                           ReduceOp op, CallOptions call = {});

  // The same, on the root alone; other ranks' recv is not looked at. In place where send == recv.
  absl::StatusOr<Operation> StartReduce(const void* send, void* recv, int64_t count, DType dtype,
                                        ReduceOp op, Rank root, CallOptions call = {});

  // ChunkLayout(count, world, tile_chunk) says which elements of send[0, count) are whose; recv is
  // this rank's shard of them, reduced. In place where recv == send + offset of this rank's chunk
  // (single tile only).
  absl::StatusOr<Operation> StartReduceScatter(const void* send, void* recv, int64_t count,
                                               DType dtype, ReduceOp op, CallOptions call = {});
  absl::StatusOr<Operation> StartReduceScatterV(const void* send, void* recv,
                                                absl::Span<const int64_t> counts, DType dtype,
                                                ReduceOp op, CallOptions call = {});

  // The inverse: send is this rank's shard, recv[0, count) is made of all ranks' shards. In place
  // where send == recv + offset of this rank's chunk (single tile only).
  absl::StatusOr<Operation> StartAllGather(const void* send, void* recv, int64_t count, DType dtype,
                                           CallOptions call = {});
  absl::StatusOr<Operation> StartAllGatherV(const void* send, void* recv,
                                            absl::Span<const int64_t> counts, DType dtype,
                                            CallOptions call = {});

  // As all_gather, on the root alone, whose in-place form it has; other ranks' recv is not looked
  // at. Scatter is its inverse: send[0, count) of the root is spread, recv is this rank's shard; in
  // place where recv == send + offset of the root's chunk on the root.
  absl::StatusOr<Operation> StartGather(const void* send, void* recv, int64_t count, DType dtype,
                                        Rank root, CallOptions call = {});
  absl::StatusOr<Operation> StartScatter(const void* send, void* recv, int64_t count, DType dtype,
                                         Rank root, CallOptions call = {});

  // buffer[0, count) of `root` arrives in everybody's buffer.
  absl::StatusOr<Operation> StartBroadcast(void* buffer, int64_t count, DType dtype, Rank root);

  // send[j * count, count) goes to rank j, recv[j * count, count) comes from rank j. The v variant:
  // send_counts[j] elements to rank j, recv_counts[j] from it; a pair that disagrees ends in an
  // error, or, where one of the two expects nothing, at the deadline. Never in place.
  absl::StatusOr<Operation> StartAllToAll(const void* send, void* recv, int64_t count, DType dtype,
                                          CallOptions call = {});
  absl::StatusOr<Operation> StartAllToAllV(const void* send, absl::Span<const int64_t> send_counts,
                                           void* recv, absl::Span<const int64_t> recv_counts,
                                           DType dtype, CallOptions call = {});

  // Completes after every rank has called it.
  absl::StatusOr<Operation> StartBarrier();

  // Several calls as one: all are checked before any starts, they run side by side, and the
  // operation is done when all are. Small all_reduces, all_gathers and broadcasts of one dtype, op
  // and root that follow each other travel packed as one operation, through scratch of this
  // communicator; no bit changes. Calls must not write what others of them read or write.
  absl::StatusOr<Operation> StartGroup(absl::Span<const Call> calls);

  // Point to point, outside the order of collectives: the n-th send of a rank to another one meets
  // the n-th receive of that one from it. Any number may be outstanding; a rank may send to itself.
  // Different counts or dtypes on the two sides fail the communicator of the receiver; the message
  // names both calls. What has not been received when its communicator ends is lost.
  absl::StatusOr<Operation> StartSend(const void* buffer, int64_t count, DType dtype, Rank peer);
  absl::StatusOr<Operation> StartRecv(void* buffer, int64_t count, DType dtype, Rank peer);

  // Lets the ranks work through memory they share, where all of them are on one host: from then on
  // collectives are loads and stores, and nothing travels (but all_to_all_v, messages, and what
  // `algorithms` asks for). Where some of them are, in whatever order, on several hosts, calls may
  // go in stages from then on: within each host through its memory, and between hosts in columns
  // of one rank a host (Algorithm::kHierarchical). A collective call, while no operation is under
  // way; only Poll and Wait of what it returns until it is finished. Scratch of shared_slot_bytes *
  // 8 and some pages is allocated a rank; calls in stages take up to 24 * 16 * slice_bytes more.
  //   FailedPrecondition  an operation is under way, the ranks share memory already, or another
  //                       split or sharing of the transport is under way
  //   AlreadyExists       a communicator was made in between with an id that the ranks agreed on
  //   otherwise           the first cause of failure
  absl::StatusOr<ShareOperation> StartShareMemory();
  absl::Status ShareMemory();
  bool shares_memory() const;  // all ranks do

  // Calls may have a shard kernel (CallOptions), as the algorithms of all_reduce and reduce_scatter
  // of this dtype have been chosen: the same on all ranks.
  bool RunsShardKernels(DType dtype) const;

  // Bytes of the memory by which the ranks share it: shared_slot_bytes * 8 and some pages, whatever
  // is called; 0: they share none.
  size_t shared_scratch_bytes() const;

  // Hosts that the ranks are on, as sharing memory has shown; 0: not known.
  int hosts() const;

  // Ranks that each of the hosts has, where these have equally many and each consecutive ones; 0:
  // they do not, or hosts are not known.
  int ranks_of_each_host() const;

  // Memory for buffers of this communicator's calls: at least `bytes`, aligned to 4096, zero. Where
  // ranks share memory those of one host reach it, and calls whose buffers all are such copy
  // nothing in between; where they do not, or the host has not enough of it (said once in the log),
  // it is private. Not collective. Counted in the ledger, which outlives it.
  //   ResourceExhausted  there is no memory
  absl::StatusOr<CommunicatorBuffer> AllocateBuffer(size_t bytes, MemoryTag tag = MemoryTag::kOther,
                                                    MemoryLedger* ledger = MemoryLedger::Default());

  // Splits the ranks into new communicators over the same transport: one for each colour >= 0, its
  // ranks in the order of (key, rank here), options as here. A collective call. One split a
  // transport at a time. The new communicator shares the transport and its fate: whichever of them
  // fails first aborts the transport, and operations of the others end with that cause. Split, not
  // StartSplit, lets the new one share memory where this one has found out who does.
  //   FailedPrecondition  another split or sharing of this transport is under way
  absl::StatusOr<SplitOperation> StartSplit(int64_t colour, int64_t key);

  // Blocking forms: start and wait for options.operation_timeout.
  absl::Status AllReduce(const void* send, void* recv, int64_t count, DType dtype, ReduceOp op,
                         CallOptions call = {});
  absl::Status Reduce(const void* send, void* recv, int64_t count, DType dtype, ReduceOp op,
                      Rank root, CallOptions call = {});
  absl::Status ReduceScatter(const void* send, void* recv, int64_t count, DType dtype, ReduceOp op,
                             CallOptions call = {});
  absl::Status ReduceScatterV(const void* send, void* recv, absl::Span<const int64_t> counts,
                              DType dtype, ReduceOp op, CallOptions call = {});
  absl::Status AllGather(const void* send, void* recv, int64_t count, DType dtype,
                         CallOptions call = {});
  absl::Status AllGatherV(const void* send, void* recv, absl::Span<const int64_t> counts,
                          DType dtype, CallOptions call = {});
  absl::Status Gather(const void* send, void* recv, int64_t count, DType dtype, Rank root,
                      CallOptions call = {});
  absl::Status Scatter(const void* send, void* recv, int64_t count, DType dtype, Rank root,
                       CallOptions call = {});
  absl::Status Broadcast(void* buffer, int64_t count, DType dtype, Rank root);
  absl::Status AllToAll(const void* send, void* recv, int64_t count, DType dtype,
                        CallOptions call = {});
  absl::Status AllToAllV(const void* send, absl::Span<const int64_t> send_counts, void* recv,
                         absl::Span<const int64_t> recv_counts, DType dtype, CallOptions call = {});
  absl::Status Barrier();
  absl::Status RunGroup(absl::Span<const Call> calls);
  absl::Status Send(const void* buffer, int64_t count, DType dtype, Rank peer);
  absl::Status Recv(void* buffer, int64_t count, DType dtype, Rank peer);

  // Null where the colour is negative.
  //   ResourceExhausted  no communicator id is free on all members' transports
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int64_t colour, int64_t key);

  // From here on operations under way go on while the owner does something else: a thread moves
  // them, and with them those of all communicators of this transport that have called this. It
  // sleeps where nothing is under way. What it finds to have failed the owner's next call returns.
  // Shard kernels may run on it. No bit and no order of operations changes; a call of the owner
  // that comes while the thread polls waits for that poll. Local: ranks may differ. Nothing else
  // may use the transport meanwhile but Abort and Wake. Counted: each call that is OK is followed
  // by one of StopProgressThread, or the communicator's end. Neither is called within a Turn.
  //   Unimplemented      the transport shows no events (a simulation)
  //   ResourceExhausted  the system gives no thread
  absl::Status StartProgressThread();
  void StopProgressThread();
  bool has_progress_thread() const;

  // Keeps the progress thread out while one lives on the owner's thread: between calls that follow
  // each other it would only be in the way. Nothing without such a thread.
  class Turn;

  // Fails the communicator with `cause` (the first wins) and aborts its transport. Any thread.
  void Abort(absl::Status cause);

  // OK, or the first cause of failure.
  absl::Status status() const;

  // The last 2,048 collective calls and where each stands. Any thread.
  rz::FlightRecord FlightRecord() const;

  // Payload this rank has sent so far, by collective.
  const WireCounters& wire_counters() const;

  // What is chosen for such a call and why, with what else there is and its predicted time.
  //   InvalidArgument  an algorithm is asked for that cannot carry it
  absl::StatusOr<Explanation> Explain(Collective collective, DType dtype, ReduceOp op,
                                      int64_t count, CallOptions call = {}) const;

  // The same for any call, v variants too; its buffers are not looked at.
  //   InvalidArgument  also where a v variant has not one count >= 0 a rank
  absl::StatusOr<Explanation> Explain(const Call& call) const;

  // How a large `collective` of `dtype` in tiles goes.
  //   InvalidArgument  an algorithm is asked for that cannot carry it
  absl::StatusOr<Carriage> CarriageOf(Collective collective, DType dtype) const;

 private:
  friend class CommunicatorBuffer;
  friend class Operation;
  friend class ShareOperation;
  friend class SplitOperation;
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class [[nodiscard]] Communicator::Turn {
 public:
  explicit Turn(Communicator* communicator);
  ~Turn();

 private:
  const ProgressThread::Section inside_;
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
  friend class ShareOperation;
  friend class SplitOperation;
  enum class Kind : uint8_t { kCollectives, kMessage };
  Operation(Communicator::Impl* communicator, Kind kind, int64_t first, int64_t last)
      : communicator_(communicator), kind_(kind), first_(first), last_(last) {}

  Communicator::Impl* communicator_;
  Kind kind_;
  int64_t first_;  // numbers of what it is made of; none where last_ < first_
  int64_t last_;
};

// What AllocateBuffer gives. Movable; gives its memory back, before its communicator ends and while
// no call uses it.
class CommunicatorBuffer {
 public:
  CommunicatorBuffer() = default;
  CommunicatorBuffer(CommunicatorBuffer&& other) noexcept;
  CommunicatorBuffer& operator=(CommunicatorBuffer&& other) noexcept;
  ~CommunicatorBuffer();

  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  absl::Span<std::byte> bytes() const { return bytes_; }
  // Other ranks reach it.
  bool is_shared() const { return owner_ != nullptr; }

 private:
  friend class Communicator;

  absl::Span<std::byte> bytes_;
  Communicator::Impl* owner_ = nullptr;  // of what is shared
  LedgerEntry entry_;                    // likewise
  Buffer private_;
};

// Ranks on their way to sharing memory. Movable; its communicator outlives it.
class ShareOperation {
 public:
  ShareOperation(ShareOperation&&) noexcept;
  ShareOperation& operator=(ShareOperation&&) noexcept;
  ~ShareOperation();

  // As Operation.
  bool Poll();
  absl::Status Wait();

  // Once done: whether they share memory now. Called once.
  absl::StatusOr<bool> Finish();

 private:
  friend class Communicator;
  struct State;
  explicit ShareOperation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A split under way. Movable; its communicator outlives it.
class SplitOperation {
 public:
  SplitOperation(SplitOperation&&) noexcept;
  SplitOperation& operator=(SplitOperation&&) noexcept;
  ~SplitOperation();

  // As Operation.
  bool Poll();
  absl::Status Wait();

  // Once done: the new communicator, null where the colour was negative. Called once.
  //   ResourceExhausted  no communicator id is free on all members' transports
  //   otherwise          the cause of failure
  absl::StatusOr<std::unique_ptr<Communicator>> Finish();

 private:
  friend class Communicator;
  struct State;
  explicit SplitOperation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_COMMUNICATOR_H_
