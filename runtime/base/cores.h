// On which cores processes may run: a job's ranks need not have all of the machine's.
#ifndef RINGZERO_RUNTIME_BASE_CORES_H_
#define RINGZERO_RUNTIME_BASE_CORES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace rz {

// Of one thread, as it travels.
struct Cores {
  int64_t count = 0;
  uint64_t hash = 0;  // of the set
};

// Of the calling thread; where the system does not say, all of the machine's.
Cores OwnCores();

// All cores together on which threads of one host may run. Sets that differ are taken to have none
// in common, as those of ranks that were bound.
int64_t CountCores(absl::Span<const Cores> threads);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_CORES_H_
