// Which communicator ids are taken on a transport of this process: two communicators with one id
// would take each other's messages.
#ifndef RINGZERO_COLLECTIVES_COMMUNICATOR_IDS_H_
#define RINGZERO_COLLECTIVES_COMMUNICATOR_IDS_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "collectives/limits.h"
#include "runtime/transport/transport.h"

namespace rz {

// One bit an id.
struct CommunicatorIdSet {
  static constexpr uint32_t kWords = (kMaxCommunicatorId + 1) / 64;
  std::array<uint64_t, kWords> words = {};

  bool Has(uint32_t id) const { return (words[id / 64] >> (id % 64) & 1) != 0; }
  void Add(uint32_t id) { words[id / 64] |= uint64_t{1} << (id % 64); }
  void Remove(uint32_t id) { words[id / 64] &= ~(uint64_t{1} << (id % 64)); }
};

// All functions: any thread.

// AlreadyExists: another communicator of the transport has the id.
absl::Status ClaimCommunicatorId(const Transport* transport, uint32_t id);
void ReleaseCommunicatorId(const Transport* transport, uint32_t id);

// Ranks agree on ids by telling each other which are taken; meanwhile nothing else of the transport
// may do so. False: something does.
bool BeginChoosingIds(const Transport* transport);
void EndChoosingIds(const Transport* transport);

struct CommunicatorIdsInUse {
  CommunicatorIdSet taken;
  uint32_t next = 0;  // one past the last id that was claimed: ids come again as late as possible
};
CommunicatorIdsInUse CommunicatorIdsOf(const Transport* transport);

// The first id from `next` round that is not taken; nullopt: all are.
std::optional<uint32_t> FreeCommunicatorId(const CommunicatorIdsInUse& ids);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_COMMUNICATOR_IDS_H_
