// Group: the ranks of a communicator, and which ranks of the transport they are. A split makes
// smaller groups; the whole world needs no table.
#ifndef RINGZERO_COLLECTIVES_GROUP_H_
#define RINGZERO_COLLECTIVES_GROUP_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/types.h"
#include "runtime/transport/transport.h"

namespace rz {

class Group {
 public:
  // Everybody the transport knows.
  explicit Group(const Transport& transport)
      : rank_(transport.rank()), size_(transport.world_size()) {}

  // members[r] is the transport's rank of rank r; `rank` is this one.
  Group(Rank rank, std::vector<Rank> members)
      : rank_(rank), size_(static_cast<int>(members.size())), members_(std::move(members)) {}

  Rank rank() const { return rank_; }
  int size() const { return size_; }

  Rank ToTransport(Rank rank) const {
    return members_.empty() ? rank : members_[static_cast<size_t>(rank.value())];
  }

  // "rank 1", in a smaller group "rank 1 (rank 5 of the job)"; for errors.
  std::string Describe(Rank rank) const {
    if (members_.empty()) return absl::StrCat("rank ", rank.value());
    return absl::StrCat("rank ", rank.value(), " (rank ", ToTransport(rank).value(),
                        " of the job)");
  }
  std::string DescribeSelf() const { return Describe(rank_); }

 private:
  Rank rank_;
  int size_;
  std::vector<Rank> members_;  // empty: the same
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_GROUP_H_
