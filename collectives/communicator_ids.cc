#include "collectives/communicator_ids.h"

#include <map>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/sync.h"

namespace rz {
namespace {

struct Registry {
  Mutex mutex;
  std::map<const Transport*, CommunicatorIdsInUse> of ABSL_GUARDED_BY(mutex);
  std::set<const Transport*> choosing ABSL_GUARDED_BY(mutex);
};

Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

bool IsEmpty(const CommunicatorIdSet& set) {
  for (uint64_t word : set.words) {
    if (word != 0) return false;
  }
  return true;
}

}  // namespace

absl::Status ClaimCommunicatorId(const Transport* transport, uint32_t id) {
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  CommunicatorIdsInUse& ids = registry.of[transport];
  if (ids.taken.Has(id)) {
    return absl::AlreadyExistsError(
        absl::StrCat("communicator id ", id,
                     " is taken on this transport: give each communicator its own, or split one"));
  }
  ids.taken.Add(id);
  ids.next = (id + 1) % (kMaxCommunicatorId + 1);
  return absl::OkStatus();
}

void ReleaseCommunicatorId(const Transport* transport, uint32_t id) {
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  const auto at = registry.of.find(transport);
  at->second.taken.Remove(id);
  if (IsEmpty(at->second.taken)) registry.of.erase(at);
}

bool BeginChoosingIds(const Transport* transport) {
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  return registry.choosing.insert(transport).second;
}

void EndChoosingIds(const Transport* transport) {
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  registry.choosing.erase(transport);
}

std::optional<uint32_t> FreeCommunicatorId(const CommunicatorIdsInUse& ids) {
  for (uint32_t i = 0; i <= kMaxCommunicatorId; ++i) {
    const uint32_t id = (ids.next + i) % (kMaxCommunicatorId + 1);
    if (!ids.taken.Has(id)) return id;
  }
  return std::nullopt;
}

CommunicatorIdsInUse CommunicatorIdsOf(const Transport* transport) {
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  const auto at = registry.of.find(transport);
  return at == registry.of.end() ? CommunicatorIdsInUse() : at->second;
}

}  // namespace rz
