// SharedRegions: memory of callers that others can reach, so that calls on it need no copy. A rank
// allocates regions and lists their keys in its part of the shared area; others map one when a call
// first names it, and let go of it when its owner has.
//
// Threads: the communicator's owner alone.
#ifndef RINGZERO_COLLECTIVES_SHARED_SHARED_REGIONS_H_
#define RINGZERO_COLLECTIVES_SHARED_SHARED_REGIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/group.h"
#include "collectives/shared/shared_area.h"
#include "runtime/transport/transport.h"

namespace rz {

// A place in some rank's memory, as it travels with a call.
struct SharedPlace {
  static constexpr int32_t kNowhere = -1;
  static constexpr int32_t kPrivate = -2;  // in its address space; the system copies from there

  int32_t region = kNowhere;
  int32_t use = 0;      // the directory's entry is used again and again: which time
  uint64_t offset = 0;  // in the region, or the address

  bool mapped() const { return region >= 0; }
  bool known() const { return region != kNowhere; }

  static SharedPlace Private(const void* data) {
    return {kPrivate, 0, reinterpret_cast<uint64_t>(data)};
  }
};

class SharedRegions {
 public:
  // Transport and area outlive the regions.
  SharedRegions(Transport* transport, const Group& group, SharedArea* area);

  // A region of this rank. Errors as Transport::AllocateShared, and
  //   ResourceExhausted  all places of the directory are taken
  absl::StatusOr<absl::Span<std::byte>> Allocate(size_t bytes);
  // Gives back what Allocate returned; false: it is no such region.
  bool Free(const std::byte* data);

  // Where [data, data + bytes) is, if it lies in one of this rank's regions.
  SharedPlace PlaceOf(const void* data, size_t bytes) const;

  // A place of another rank, seen from here; null where it cannot be mapped.
  std::byte* AddressOf(int rank, const SharedPlace& place);

  // There is none of this rank's.
  bool empty() const { return count_ == 0; }

 private:
  struct View {
    int32_t use = 0;
    std::unique_ptr<SharedMemory> memory;
  };

  View* ViewOf(int rank, const SharedPlace& place);
  // Lets go of what `rank` has given back.
  void Sweep(int rank);

  Transport* const transport_;
  const Group group_;
  SharedArea* const area_;
  std::array<View, kSharedRegions> own_;
  std::vector<std::array<View, kSharedRegions>> theirs_;  // by rank
  std::vector<int64_t> freed_;                            // by rank, as far as it was swept
  int count_ = 0;                                         // of this rank's
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_SHARED_REGIONS_H_
