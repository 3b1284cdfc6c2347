// Transport: how the ranks of one job move bytes. This header is the whole contract; the
// implementations stand beside it (ucx/ between processes, sim/ in one thread) and never see each
// other. conformance/ runs the same scenarios on all of them.
//
// Message link. A message goes from one rank to another under a tag and lands in a receive that was
// posted for (source, tag). The rules every implementation keeps:
//   1. Messages of one (source, destination, tag) match receives in the order both were posted.
//      Different tags are independent: neither blocks the other.
//   2. Either side may be first. An early message waits for its receive without bound in time.
//   3. Every posted operation completes exactly once: with OK, with the failure of its peer, or
//   with
//      the cause of Abort. Its memory belongs to the transport until then.
//   4. A completed send says that the memory may be used again, and nothing about the peer.
//   5. A message longer than its receive completes the receive with OutOfRange, and only that one;
//      a shorter one completes with OK and its own length.
//   6. Completions are delivered from Progress only, never from PostSend or PostRecv, so a sink may
//      post further operations. Zero bytes are a message like any other. A rank may send to itself.
//   7. The peer's death is noticed where the network tells (never promised: the rendezvous judges).
//      When it is, operations with that peer complete with Unavailable and so do later ones.
//
// Shared link. Ranks of one host reach each other's memory by plain loads and stores: one allocates
// a region and gives its key to others, who map it. No operation of the transport is under way on
// that path, so neither a death nor an abort shows there: a posted receive tells of both. A mapping
// outlives the rank it came from. What is stored for a peer that may be asleep in WaitForEvent is
// followed by RingDoorbell.
//
// Threads: one owner thread calls everything; Abort and Wake alone may come from any thread.
#ifndef RINGZERO_RUNTIME_TRANSPORT_TRANSPORT_H_
#define RINGZERO_RUNTIME_TRANSPORT_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/types.h"

namespace rz {

// Names a stream of messages between two ranks; the transport adds source and epoch by itself.
// At most kMaxTag (42 bits): {communicator 8, operation 22, lane 12}, see MakeTag.
using Tag = uint64_t;
inline constexpr int kTagBits = 42;
inline constexpr Tag kMaxTag = (Tag{1} << kTagBits) - 1;

// Packs a tag. Numbers wrap: operations that are 2^22 apart, or lanes 2^12 apart, are never in
// flight together.
constexpr Tag MakeTag(uint32_t communicator, uint64_t operation, uint64_t lane) {
  return (Tag{communicator & 0xff} << 34) | ((operation & 0x3fffff) << 12) | (lane & 0xfff);
}

// Told when an operation it posted has completed.
class CompletionSink {
 public:
  // `token` is what the operation was posted with; `bytes` what was moved (0 unless OK).
  virtual void OnComplete(uint64_t token, const absl::Status& status, size_t bytes) = 0;

 protected:
  ~CompletionSink() = default;
};

// Memory that several ranks see: this rank's own, or a peer's. Gives it back in the destructor;
// the transport outlives it.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;

  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Aligned to 4096. Zero when it was allocated.
  absl::Span<std::byte> bytes() const { return bytes_; }

  // What peers map it by, at most kMaxSharedKeyBytes of any value.
  const std::string& key() const { return key_; }

 protected:
  SharedMemory() = default;

  absl::Span<std::byte> bytes_;
  std::string key_;
};
inline constexpr size_t kMaxSharedKeyBytes = 256;

class Transport {
 public:
  virtual ~Transport() = default;

  // This worker's address, to be given to every peer through the rendezvous. At most 4 KiB.
  virtual std::string LocalAddress() const = 0;

  // Makes this worker `self` among addresses.size() ranks (rank r has addresses[r]). Called once.
  //   InvalidArgument   an address does not parse, or `self` is outside the world
  //   Unavailable       a peer cannot be reached
  virtual absl::Status Connect(Rank self, absl::Span<const std::string> addresses, Epoch epoch) = 0;

  virtual Rank rank() const = 0;
  virtual int world_size() const = 0;

  // Starts a send or receive of data.size() bytes (any number, any alignment). `sink` outlives the
  // operation. Where the status is not OK nothing was started and `sink` will not be called:
  //   InvalidArgument     peer outside the world, or tag above kMaxTag
  //   FailedPrecondition  not connected
  //   Unavailable         the peer is known to be dead
  //   otherwise           the cause of Abort
  virtual absl::Status PostSend(Rank peer, Tag tag, absl::Span<const std::byte> data,
                                CompletionSink* sink, uint64_t token) = 0;
  virtual absl::Status PostRecv(Rank peer, Tag tag, absl::Span<std::byte> buffer,
                                CompletionSink* sink, uint64_t token) = 0;

  // A synchronous send: PostSend, for a message that an Abort of this rank must not take back on
  // its way. Completes with OK once the message has met its receive. Where a message cannot be lost
  // once it was sent, that may be earlier.
  virtual absl::Status PostSyncSend(Rank peer, Tag tag, absl::Span<const std::byte> data,
                                    CompletionSink* sink, uint64_t token) {
    return PostSend(peer, tag, data, sink, token);
  }

  // Takes back the receives posted with `sink` that no message has met: each completes with
  // Cancelled. Those that a message has met complete as ever.
  virtual void CancelReceives(CompletionSink* sink) = 0;

  // Moves what can be moved, delivers completions, and returns how many. Never blocks.
  virtual int Progress() = 0;

  // Waits until Progress may have something to do, somebody called Wake or Abort, or `deadline`
  // (of the steady clock) has passed; may return early. Spins briefly, then sleeps without CPU.
  virtual void WaitForEvent(Deadline deadline) = 0;

  // For an owner that sleeps elsewhere, with others in its place meanwhile. ArmEvent: false where
  // Progress has something to do; otherwise EventDescriptor is readable as soon as it has, as long
  // as nobody calls anything in between. The descriptor is the same for good, and may be polled,
  // but not read, by any thread; -1: there is none, and ArmEvent is not called.
  virtual int EventDescriptor() const { return -1; }
  virtual bool ArmEvent() { return false; }

  // More ranks than cores are on this host: from now on waits give the core away sooner.
  virtual void ExpectFewCores() {}

  // Makes a WaitForEvent under way, or the next one, return. Any thread.
  virtual void Wake() = 0;

  // Ends all communication for good: every operation completes with `cause` at the next Progress
  // calls, every later post is refused with it. The first cause wins. Needs no peer: that takes
  // milliseconds, and at most a few seconds of progress where peers do not move. Any thread.
  virtual void Abort(absl::Status cause) = 0;

  // Memory of this rank that peers may map: `bytes` >= 1, rounded up to pages. A transport without
  // a shared link has the three that follow as they are here.
  //   ResourceExhausted  the host has not enough of it; the message says where and how much
  //   Unimplemented      this transport shares no memory with anybody
  virtual absl::StatusOr<std::unique_ptr<SharedMemory>> AllocateShared(size_t) {
    return absl::UnimplementedError("this transport shares no memory");
  }

  // The region of `peer` with this key, seen from here. Proved by reading what the peer has
  // written there: neither host names nor process ids say who shares memory.
  //   InvalidArgument  no such peer, or no key
  //   Unavailable      the peer's memory cannot be reached from here; the message says why
  virtual absl::StatusOr<std::unique_ptr<SharedMemory>> MapShared(Rank, std::string_view) {
    return absl::UnavailableError("this transport shares no memory");
  }

  // Makes a WaitForEvent of `peer` that is under way, or its next one, return. May do nothing where
  // the peer is gone.
  virtual void RingDoorbell(Rank) {}

  // What carries the bytes, for people: "ucx 1.13.1: posix, tcp" or "sim".
  virtual std::string Description() const = 0;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_TRANSPORT_H_
