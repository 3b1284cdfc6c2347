// The collectives by name. A v variant is the same collective with a count for each rank.
#ifndef RINGZERO_COLLECTIVES_COLLECTIVE_H_
#define RINGZERO_COLLECTIVES_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

namespace rz {

// Tables are indexed by these values.
enum class Collective : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
};
inline constexpr size_t kCollectiveCount = 9;

inline constexpr Collective kAllCollectives[kCollectiveCount] = {
    Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
    Collective::kBroadcast, Collective::kReduce,        Collective::kAllToAll,
    Collective::kGather,    Collective::kScatter,       Collective::kBarrier,
};

// "all_reduce", ...
std::string_view NameOf(Collective collective);
std::optional<Collective> ParseCollective(std::string_view name);
std::ostream& operator<<(std::ostream& os, Collective collective);

// It adds (multiplies, ...) the ranks' inputs.
bool IsReduction(Collective collective);

// One rank is the source or the destination of everything.
bool HasRoot(Collective collective);

// It has a v variant.
bool HasVariant(Collective collective);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_COLLECTIVE_H_
