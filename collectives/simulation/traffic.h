// Traffic: what is under way over simulated links, and who hears of it when it arrives. Several
// calls may share it: each hears of its own messages and timers.
#ifndef RINGZERO_COLLECTIVES_SIMULATION_TRAFFIC_H_
#define RINGZERO_COLLECTIVES_SIMULATION_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "runtime/transport/sim/sim_links.h"

namespace rz {

class TrafficListener;

class Traffic {
 public:
  // Ranks are the listener's own.
  struct Message {
    TrafficListener* listener = nullptr;
    int source = 0;
    int slot = 0;  // of the source
    int destination = 0;
    int64_t lane = 0;
    int64_t bytes = 0;
  };
  struct Timer {
    TrafficListener* listener = nullptr;
    int rank = 0;
    int slot = 0;
  };

  // As SimLinks.
  Traffic(int ranks, const LinkOptions& options);

  const SimLinks& links() const { return links_; }
  SimTime now() const { return links_.now(); }
  int64_t delivered() const { return delivered_; }

  // From and to ranks of the links.
  void Send(int from, int to, const Message& message);
  void SetTimer(SimTime at, const Timer& timer);

  // Of a rank of the links: it was told of something.
  void MakeDue(int rank);
  // Those that were, in order; until the next of these calls.
  const std::vector<int>& TakeDue();

  // Until when a rank of the links is busy with additions.
  SimTime& BusyUntil(int rank) { return busy_until_[static_cast<size_t>(rank)]; }

  // Goes on to the next moment at which something happens, and tells of all that does. False:
  // nothing is under way.
  bool Step();

 private:
  void Handle(const SimLinks::Event& event);

  SimLinks links_;
  std::vector<Message> messages_;  // by their numbers
  std::vector<Timer> timers_;
  std::vector<int> free_timers_;
  std::vector<SimTime> busy_until_;
  std::vector<uint8_t> is_due_;
  std::vector<int> due_;
  std::vector<int> taken_;
  int64_t delivered_ = 0;
};

class TrafficListener {
 public:
  virtual ~TrafficListener() = default;

  // Its last byte has left the sender.
  virtual void OnSent(const Traffic::Message& message) = 0;
  virtual void OnDelivered(const Traffic::Message& message) = 0;
  virtual void OnTimer(const Traffic::Timer& timer) = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SIMULATION_TRAFFIC_H_
