// SharedArea: the memory through which the ranks of a communicator on one host work together. Each
// rank owns a region that all others have mapped; of everything in it there is one writer, its
// owner.
//
//   lines     One a call, in a ring: what the call is and, where it fits, its data. See
//             shared_exchange.h.
//   counters  How far the owner has come; on lines of their own, since others watch them.
//   regions   By which keys others map the owner's own buffers. See shared_regions.h.
//   slots     Two rings of buffers: pieces of the owner's input for others, and results of it.
//
// A step is a lane of an operation (lane_layout.h), and steps are counted over all operations of a
// communicator, alike on all ranks; step s uses slot s % kSlots of each ring.
#ifndef RINGZERO_COLLECTIVES_SHARED_SHARED_AREA_H_
#define RINGZERO_COLLECTIVES_SHARED_SHARED_AREA_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/call_descriptor.h"
#include "collectives/group.h"
#include "runtime/base/types.h"
#include "runtime/transport/transport.h"

namespace rz {

// Two cache lines, which processors fetch together.
inline constexpr size_t kSharedLineBytes = 128;
inline constexpr int kSharedLines = 64;
inline constexpr int kSharedSlots = 4;
inline constexpr size_t kSharedRegions = 64;

struct alignas(kSharedLineBytes) SharedLine {
  static constexpr size_t kPayloadBytes = kSharedLineBytes - 16;

  std::atomic<int64_t> number;  // of the call that the rest is about
  uint64_t hash;                // of the call and all before it
  std::array<std::byte, kPayloadBytes> payload;
};
static_assert(sizeof(SharedLine) == kSharedLineBytes);

struct alignas(kSharedLineBytes) SharedCounter {
  std::atomic<int64_t> value;
};

// How others map a region of the owner's.
struct SharedDirectoryEntry {
  std::atomic<int32_t> use;  // counts up with every region that has the place; 0: none has
  uint32_t key_bytes;
  std::array<char, kMaxSharedKeyBytes> key;
};

struct SharedHeader {
  std::array<SharedLine, kSharedLines> lines;
  std::array<CallDescriptor, kSharedLines> calls;
  SharedCounter released;  // calls whose lines of others the owner needs no more
  SharedCounter offered;   // steps whose input the owner has laid out
  SharedCounter summed;    // steps whose result it has laid out
  SharedCounter taken;     // steps for which it needs nothing of others any more
  SharedCounter asleep;    // not 0: the owner may sleep, and wants a doorbell
  SharedCounter process;   // the owner's process id
  SharedCounter address;   // of this, in the owner
  SharedCounter freed;     // regions given back
  std::array<SharedDirectoryEntry, kSharedRegions> regions;
};

class SharedArea {
 public:
  // This rank's region; the transport outlives it. Errors as Transport::AllocateShared.
  static absl::StatusOr<std::unique_ptr<SharedArea>> Allocate(Transport* transport, Group group,
                                                              size_t slot_bytes);

  // By which others map this rank's region.
  const std::string& key() const { return own_->key(); }

  // Maps all that can be; keys[r] is rank r's.
  //   Unavailable  a rank's memory cannot be reached from here; the message names the first
  absl::Status Map(absl::Span<const std::string> keys);
  bool reaches(int rank) const { return bases_[static_cast<size_t>(rank)] != nullptr; }

  // From here on the area is of some of its ranks alone, all of them reached: members[r] is the
  // rank so far of rank r of `group`.
  void Narrow(Group group, absl::Span<const int> members);

  // The system lets this process copy from the memory of all that are reached. Once mapped.
  bool CanFetch() const;
  // What all ranks have agreed on.
  bool fetches() const { return fetches_; }
  void set_fetches(bool fetches) { fetches_ = fetches; }

  int rank() const { return group_.rank().value(); }
  int world() const { return group_.size(); }
  size_t slot_bytes() const { return slot_bytes_; }
  // Of this rank's region.
  size_t bytes() const { return own_->bytes().size(); }

  SharedHeader& header() { return Header(rank()); }
  SharedHeader& Header(int rank) const {
    return *reinterpret_cast<SharedHeader*>(bases_[static_cast<size_t>(rank)]);
  }

  // Slots of `rank` for a step.
  std::byte* InputSlot(int rank, int64_t step) const { return Slot(rank, step % kSharedSlots); }
  std::byte* ResultSlot(int rank, int64_t step) const {
    return Slot(rank, kSharedSlots + step % kSharedSlots);
  }

  // After a store that others may wait for: wakes those that sleep.
  void Notify();

 private:
  SharedArea(Transport* transport, Group group, size_t slot_bytes)
      : transport_(transport), group_(std::move(group)), slot_bytes_(slot_bytes) {}

  std::byte* Slot(int rank, int64_t index) const;

  Transport* const transport_;
  Group group_;
  const size_t slot_bytes_;
  bool fetches_ = false;
  std::unique_ptr<SharedMemory> own_;
  std::vector<std::unique_ptr<SharedMemory>> peers_;
  std::vector<std::byte*> bases_;  // by rank
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_SHARED_AREA_H_
