// HostMap: which ranks of a communicator share memory with each other, and so are on one host.
//
// Hosts are numbered by their lowest rank, the ranks of a host by rank. The k-th ranks of all hosts
// form column k; there are as many columns as the smallest host has ranks, so that every host has
// one rank in each of them.
#ifndef RINGZERO_COLLECTIVES_HIERARCHY_HOST_MAP_H_
#define RINGZERO_COLLECTIVES_HIERARCHY_HOST_MAP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace rz {

class HostMap {
 public:
  // hosts[r] says where rank r is, by any numbers; at least one rank.
  explicit HostMap(absl::Span<const int> hosts);

  // Whose memory a rank reaches, itself included, as it travels.
  struct Reach {
    int64_t first = 0;  // the lowest
    int64_t count = 0;
    uint64_t hash = 0;  // of the set
  };
  static Reach ReachOf(const std::vector<bool>& reached);

  // Of what all ranks say. Nullopt: it does not divide them into hosts; a rank reaches one that
  // reaches others than it does.
  static std::optional<HostMap> FromReaches(absl::Span<const Reach> reaches);

  int ranks() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return static_cast<int>(ranks_of_.size()); }
  int columns() const { return columns_; }
  int largest_host() const { return largest_; }

  int HostOf(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  // The rank's place among the ranks of its host.
  int IndexOf(int rank) const { return index_of_[static_cast<size_t>(rank)]; }
  // In ascending order.
  absl::Span<const int> RanksOf(int host) const { return ranks_of_[static_cast<size_t>(host)]; }
  // By host; column < columns().
  std::vector<int> Column(int column) const;

  // Ranks of each host, where all have equally many and each consecutive ones; otherwise 0.
  int ranks_of_each() const;

  // There is something to gain: several hosts, and one with several ranks.
  bool is_hierarchy() const { return hosts() > 1 && largest_ > 1; }

 private:
  std::vector<int> host_of_;
  std::vector<int> index_of_;
  std::vector<std::vector<int>> ranks_of_;
  int columns_ = 0;
  int largest_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_HIERARCHY_HOST_MAP_H_
