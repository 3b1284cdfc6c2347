#include "collectives/simulation/traffic.h"

#include <algorithm>
#include <optional>

namespace rz {

Traffic::Traffic(int ranks, const LinkOptions& options)
    : links_(ranks, options),
      busy_until_(static_cast<size_t>(ranks)),
      is_due_(static_cast<size_t>(ranks)) {}

void Traffic::Send(int from, int to, const Message& message) {
  const auto id = static_cast<size_t>(links_.Send(from, to, message.bytes));
  if (id >= messages_.size()) messages_.resize(id + 1);
  messages_[id] = message;
}

void Traffic::SetTimer(SimTime at, const Timer& timer) {
  if (free_timers_.empty()) {
    free_timers_.push_back(static_cast<int>(timers_.size()));
    timers_.emplace_back();
  }
  const int id = free_timers_.back();
  free_timers_.pop_back();
  timers_[static_cast<size_t>(id)] = timer;
  links_.SetTimer(at, id);
}

void Traffic::MakeDue(int rank) {
  if (is_due_[static_cast<size_t>(rank)] != 0) return;
  is_due_[static_cast<size_t>(rank)] = 1;
  due_.push_back(rank);
}

const std::vector<int>& Traffic::TakeDue() {
  taken_.clear();
  taken_.swap(due_);
  // Where ranks move in step, most of them are.
  if (taken_.size() < is_due_.size() / 8) {
    std::sort(taken_.begin(), taken_.end());
    for (int rank : taken_) is_due_[static_cast<size_t>(rank)] = 0;
    return taken_;
  }
  taken_.clear();
  for (size_t rank = 0; rank < is_due_.size(); ++rank) {
    if (is_due_[rank] != 0) taken_.push_back(static_cast<int>(rank));
    is_due_[rank] = 0;
  }
  return taken_;
}

bool Traffic::Step() {
  std::optional<SimLinks::Event> event = links_.Next();
  if (!event.has_value()) return false;
  for (; event.has_value(); event = links_.NextOfNow()) Handle(*event);
  return true;
}

void Traffic::Handle(const SimLinks::Event& event) {
  const auto id = static_cast<size_t>(event.id);
  if (event.kind == SimLinks::Kind::kTimer) {
    const Timer timer = timers_[id];
    free_timers_.push_back(event.id);
    timer.listener->OnTimer(timer);
    return;
  }
  const Message message = messages_[id];
  if (event.kind == SimLinks::Kind::kSent) {
    message.listener->OnSent(message);
    return;
  }
  ++delivered_;
  message.listener->OnDelivered(message);
}

}  // namespace rz
