// RunningCalls: the calls that an engine has under way, one after the other, with what it keeps of
// each. A call's memory is used again, so the steady state allocates nothing.
//
// Threads: the engine's owner alone.
#ifndef RINGZERO_COLLECTIVES_RUNNING_CALLS_H_
#define RINGZERO_COLLECTIVES_RUNNING_CALLS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "collectives/plan.h"

namespace rz {

// What every engine keeps of a call: its plan, with offsets of its own.
struct RunningCall {
  int64_t number = 0;
  Plan plan;
  std::vector<int64_t> offsets;
};

// `Call` is a RunningCall.
template <typename Call>
class RunningCalls {
 public:
  // The newest call; everything but number and plan is left from an earlier one, or made of `args`.
  // Call numbers rise. The plan's offsets need not stay.
  template <typename... Args>
  Call& Add(int64_t number, const Plan& plan, Args&&... args) {
    if (free_.empty()) {
      calls_.emplace_back(std::forward<Args>(args)...);
      free_.reserve(calls_.size());
      order_.reserve(calls_.size());
      free_.push_back(calls_.size() - 1);
    }
    const size_t index = free_.back();
    free_.pop_back();
    order_.push_back(index);
    Call& call = calls_[index];
    call.number = number;
    call.plan = plan;
    if (!plan.lanes.offsets().empty()) {
      call.offsets.assign(plan.lanes.offsets().begin(), plan.lanes.offsets().end());
      call.plan.lanes.Rebase(call.offsets);
    }
    return call;
  }

  bool empty() const { return order_.empty(); }
  size_t size() const { return order_.size(); }

  // Not empty, for these.
  Call& oldest() { return calls_[order_.front()]; }
  const Call& oldest() const { return calls_[order_.front()]; }
  bool IsOldest(const Call& call) const { return &oldest() == &call; }
  void PopOldest() {
    free_.push_back(order_.front());
    order_.erase(order_.begin());
  }

  void Clear() {
    while (!empty()) PopOldest();
  }

  // Null where it is not under way.
  const Call* Find(int64_t number) const {
    const auto found = FirstWithin(number, number);
    return found == order_.end() ? nullptr : &calls_[*found];
  }

  // None of the calls `first` to `last` is under way.
  bool AreDone(int64_t first, int64_t last) const {
    return order_.empty() || FirstWithin(first, last) == order_.end();
  }

  // The first of them that is under way, or `last`.
  int64_t FirstRunning(int64_t first, int64_t last) const {
    const auto found = FirstWithin(first, last);
    return found == order_.end() ? last : calls_[*found].number;
  }

  // Remembers all that are under way as failed and tells of each; they stay.
  template <typename OnFailed>
  void Fail(OnFailed on_failed) {
    for (size_t index : order_) {
      failed_.push_back(calls_[index].number);
      on_failed(failed_.back());
    }
  }
  bool HasFailed(int64_t first, int64_t last) const {
    return std::any_of(failed_.begin(), failed_.end(),
                       [&](int64_t number) { return number >= first && number <= last; });
  }

 private:
  std::vector<size_t>::const_iterator FirstWithin(int64_t first, int64_t last) const {
    return std::find_if(order_.begin(), order_.end(), [&](size_t index) {
      return calls_[index].number >= first && calls_[index].number <= last;
    });
  }

  std::deque<Call> calls_;  // whose addresses stay
  std::vector<size_t> free_;
  std::vector<size_t> order_;  // oldest first
  std::vector<int64_t> failed_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_RUNNING_CALLS_H_
