#include "collectives/collective.h"

#include <string>

#include "absl/strings/str_replace.h"

namespace rz {
namespace {

constexpr std::string_view kNames[kCollectiveCount] = {"all_reduce", "reduce_scatter", "all_gather",
                                                       "broadcast",  "reduce",         "all_to_all",
                                                       "gather",     "scatter",        "barrier"};

}  // namespace

std::string_view NameOf(Collective collective) { return kNames[static_cast<size_t>(collective)]; }

std::optional<Collective> ParseCollective(std::string_view name) {
  for (Collective collective : kAllCollectives) {
    const std::string full(NameOf(collective));
    const std::string joined = absl::StrReplaceAll(full, {{"_", ""}});
    // The name as other libraries write it: allreduce, reducescatter, alltoall.
    if (name == full || name == joined) return collective;
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& os, Collective collective) {
  return os << NameOf(collective);
}

bool IsReduction(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

bool HasRoot(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

bool HasVariant(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllGather ||
         collective == Collective::kAllToAll;
}

}  // namespace rz
