#include "collectives/hierarchy/host_map.h"

#include <algorithm>
#include <map>

namespace rz {
namespace {

// One rank's share of the hash of a set, which is their sum (splitmix64).
uint64_t HashOf(size_t rank) {
  uint64_t x = (static_cast<uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

HostMap::HostMap(absl::Span<const int> hosts) {
  std::map<int, int> numbers;
  for (size_t r = 0; r < hosts.size(); ++r) {
    const int host = numbers.emplace(hosts[r], static_cast<int>(numbers.size())).first->second;
    if (host == static_cast<int>(ranks_of_.size())) ranks_of_.emplace_back();
    std::vector<int>& members = ranks_of_[static_cast<size_t>(host)];
    host_of_.push_back(host);
    index_of_.push_back(static_cast<int>(members.size()));
    members.push_back(static_cast<int>(r));
  }
  columns_ = ranks();
  for (const std::vector<int>& members : ranks_of_) {
    columns_ = std::min(columns_, static_cast<int>(members.size()));
    largest_ = std::max(largest_, static_cast<int>(members.size()));
  }
}

HostMap::Reach HostMap::ReachOf(const std::vector<bool>& reached) {
  Reach reach;
  for (size_t r = 0; r < reached.size(); ++r) {
    if (!reached[r]) continue;
    if (reach.count++ == 0) reach.first = static_cast<int64_t>(r);
    reach.hash += HashOf(r);
  }
  return reach;
}

std::optional<HostMap> HostMap::FromReaches(absl::Span<const Reach> reaches) {
  // Those with the same lowest rank must be the ones that each of them reaches.
  std::vector<Reach> found(reaches.size());
  std::vector<int> hosts;
  for (size_t r = 0; r < reaches.size(); ++r) {
    const int64_t first = reaches[r].first;
    if (first < 0 || first > static_cast<int64_t>(r)) return std::nullopt;
    Reach& of_host = found[static_cast<size_t>(first)];
    ++of_host.count;
    of_host.hash += HashOf(r);
    hosts.push_back(static_cast<int>(first));
  }
  for (const Reach& reach : reaches) {
    const Reach& of_host = found[static_cast<size_t>(reach.first)];
    if (reach.count != of_host.count || reach.hash != of_host.hash) return std::nullopt;
  }
  return HostMap(hosts);
}

std::vector<int> HostMap::Column(int column) const {
  std::vector<int> members;
  for (const std::vector<int>& host : ranks_of_) {
    members.push_back(host[static_cast<size_t>(column)]);
  }
  return members;
}

int HostMap::ranks_of_each() const {
  int rank = 0;
  for (const std::vector<int>& host : ranks_of_) {
    if (host.size() != ranks_of_[0].size()) return 0;
    for (const int member : host) {
      if (member != rank++) return 0;
    }
  }
  return static_cast<int>(ranks_of_[0].size());
}

}  // namespace rz
