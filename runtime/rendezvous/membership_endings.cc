#include "runtime/rendezvous/membership_endings.h"

#include "runtime/rendezvous/limits.h"

namespace rz {

void MembershipEndings::Remember(const FailureReport& report) {
  if (report.launch == LaunchId(0)) return;
  const Key key(report.job, report.launch);
  if (!first_.try_emplace(key, report).second) return;
  order_.push_back(key);
  if (order_.size() <= limits::kMaxEndings) return;
  first_.erase(order_.front());
  order_.pop_front();
}

const FailureReport* MembershipEndings::Find(const std::string& job, LaunchId launch) const {
  const auto entry = first_.find({job, launch});
  return entry == first_.end() ? nullptr : &entry->second;
}

}  // namespace rz
