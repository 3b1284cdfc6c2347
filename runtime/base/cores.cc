#include "runtime/base/cores.h"

#include <sched.h>

#include <string_view>
#include <thread>
#include <unordered_set>

#include "runtime/base/fnv_hash.h"

namespace rz {

Cores OwnCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on a machine of more cores than the set has bits.
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    return {.count = static_cast<int64_t>(std::thread::hardware_concurrency())};
  }
  return {.count = CPU_COUNT(&set),
          .hash = FnvHash(std::string_view(reinterpret_cast<const char*>(&set), sizeof set))};
}

int64_t CountCores(absl::Span<const Cores> threads) {
  std::unordered_set<uint64_t> counted;
  int64_t count = 0;
  for (const Cores& cores : threads) {
    if (counted.insert(cores.hash).second) count += cores.count;
  }
  return count;
}

}  // namespace rz
