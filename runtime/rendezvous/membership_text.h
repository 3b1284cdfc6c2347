// Sets of ranks as people read them.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_TEXT_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_TEXT_H_

#include <string>
#include <vector>

#include "runtime/base/types.h"

namespace rz {

// "rank 3", "ranks 2, 5-7", "ranks 0, 2, 4 and 96 more" (at most limits::kMaxListedRuns runs) for
// ascending ranks; "no ranks" for none.
std::string FormatRanks(const std::vector<Rank>& ranks);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_TEXT_H_
