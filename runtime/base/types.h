// The numbers every floor speaks of.
#ifndef RINGZERO_RUNTIME_BASE_TYPES_H_
#define RINGZERO_RUNTIME_BASE_TYPES_H_

#include <cstdint>

#include "runtime/base/strong_int.h"

namespace rz {

// Position of a worker in a job: 0 .. world size - 1.
using Rank = StrongInt<struct RankTag, int32_t>;

// Generation of a job's membership. Grows whenever the membership changes; what belongs to an older
// one is rejected.
using Epoch = StrongInt<struct EpochTag, int64_t>;

// Random number a process draws at its start: tells a restarted worker from the one it replaces.
using Incarnation = StrongInt<struct IncarnationTag, uint64_t>;

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_TYPES_H_
