// What launchers have seen end. Part of Membership; pure, no threads.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_ENDINGS_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_ENDINGS_H_

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "runtime/rendezvous/membership_types.h"

namespace rz {

// A process that has ended joins nothing any more, and the others of its launch must not wait for
// it. One ending a launch is enough for that: the first is kept. Beyond limits::kMaxEndings the
// oldest is forgotten: whoever depends on it waits for the join's timeout.
class MembershipEndings {
 public:
  // `report` is a launcher's. Without a launch there is nothing to remember it by.
  void Remember(const FailureReport& report);

  // The first ending of `launch`; null: none is known. Valid until the next Remember.
  const FailureReport* Find(const std::string& job, LaunchId launch) const;

 private:
  using Key = std::pair<std::string, LaunchId>;

  std::map<Key, FailureReport> first_;
  std::deque<Key> order_;  // oldest first
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_ENDINGS_H_
