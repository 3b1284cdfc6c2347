// SimLinks: when messages between simulated ranks arrive, over links that have a latency and a
// bandwidth. Hockney's alpha + beta n for every link on a message's way, and a queue before each:
//
//   rank out -> host out -> rack out  ~ latency ~>  rack in -> host in -> rank in
//
// A message within a host skips the four in the middle, within a rack the two of the racks. Each
// place serves one message after another, in the order in which their first bytes reach it, and is
// taken for size / bandwidth; the first byte goes on at once, so a message that meets nobody needs
// latency + size / (the smallest bandwidth on its way). Queues are as long as they have to be. What
// is sent is out of the sender's hands when its last byte has left "rank out".
//
// A discrete-event simulation: no threads, no randomness, the same calls give the same times. Time
// is whole picoseconds. Knows nothing of payloads, tags or ranks' states: sim_network.h does, and
// collectives/simulation.
#ifndef RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_LINKS_H_
#define RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_LINKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace rz {

// Picoseconds since the start: 106 days fit.
using SimTime = int64_t;

absl::Duration DurationOf(SimTime time);  // down to the quarter of a nanosecond
SimTime SimTimeOf(absl::Duration duration);

// Bandwidths are bytes a second in each direction; 0: no limit.
struct LinkOptions {
  absl::Duration latency = absl::Microseconds(5);
  double rank_bandwidth = 25e9;

  // Ranks 0 .. ranks_per_host - 1 are on host 0 and so on, hosts likewise in racks (0: one rack).
  int ranks_per_host = 1;
  int hosts_per_rack = 0;

  // Between ranks of one host; none: as between hosts.
  std::optional<absl::Duration> local_latency = std::nullopt;
  std::optional<double> local_bandwidth = std::nullopt;

  // Of a host's network interface, shared by its ranks, and of a rack's uplink, shared by its
  // hosts.
  double host_bandwidth = 0;
  double rack_bandwidth = 0;

  // Each message is the first of so many alike, which hold hosts' and racks' places one after
  // another: of ranks that all do the same, one is there for all.
  int stands_for = 1;
};

// InvalidArgument: negative or not finite, or no rank on a host; the message says which.
absl::Status CheckLinks(const LinkOptions& options);

class SimLinks {
 public:
  enum class Kind : uint8_t {
    kSent,       // a message's last byte has left its sender
    kDelivered,  // it has reached its receiver, not before it was sent; its number is free again
    kTimer,
    kHead,  // its first byte reaches the next place (never returned)
  };
  struct Event {
    Kind kind = Kind::kTimer;
    int id = 0;  // of the message or timer
  };

  // CheckLinks(options) is OK; ranks >= 1.
  SimLinks(int ranks, const LinkOptions& options);

  SimLinks(const SimLinks&) = delete;
  SimLinks& operator=(const SimLinks&) = delete;

  // A message of `bytes` leaves now. Returns its number: the smallest ones that are free.
  int Send(int source, int destination, int64_t bytes);

  // A kTimer event at `at`, not before now.
  void SetTimer(SimTime at, int id);

  // The next event, and time moves on to it; none: nothing is under way. Those of one moment come
  // in the order of what led to them.
  std::optional<Event> Next();

  // Likewise, of this very moment alone.
  std::optional<Event> NextOfNow();

  SimTime now() const { return now_; }

  int host_of(int rank) const { return rank / options_.ranks_per_host; }
  int rack_of(int rank) const {
    return options_.hosts_per_rack == 0 ? 0 : host_of(rank) / options_.hosts_per_rack;
  }

  // So far: sent by a rank, and of that what left its host and its rack, of the one that sent most.
  int64_t most_sent_by_rank() const;
  int64_t most_sent_by_host() const;
  int64_t most_sent_by_rack() const;
  int64_t messages() const { return messages_sent_; }

 private:
  enum Place : uint8_t { kRankOut, kHostOut, kRackOut, kRackIn, kHostIn, kRankIn, kPlaces };

  struct Message {
    int source = 0;
    int destination = 0;
    int64_t bytes = 0;
    uint8_t place = kRankOut;  // the next one
    SimTime tail = 0;          // its last byte gets there, if nobody is met
  };

  // Servers of one place, one a rank, host or rack, and picoseconds a byte each takes.
  struct Servers {
    std::vector<SimTime> free_at;
    double per_byte = 0;
    double per_local_byte = 0;  // of messages within a host
  };

  void Push(SimTime at, Event event);
  // The message's first byte is at its next place, now.
  void Travel(int id);
  // Takes a server for `cost`, now or when it is free: returns when.
  SimTime Queue(SimTime& free_at, SimTime cost) const;
  // Of the message at its next place; 0: it needs no server there.
  double PerByteAt(const Message& message) const;
  size_t ServerOf(const Message& message) const;
  void Count(const Message& message);

  const LinkOptions options_;
  SimTime latency_;
  SimTime local_latency_;
  std::array<Servers, kPlaces> servers_;
  std::vector<int64_t> sent_by_rank_, sent_by_host_, sent_by_rack_;
  int64_t messages_sent_ = 0;

  std::vector<Message> messages_;
  std::vector<int> free_messages_;

  // Events of a moment are a list: where ranks move in step, thousands share one.
  using Moments = std::map<SimTime, std::vector<Event>>;
  SimTime now_ = 0;
  std::vector<Event> present_;  // of now, and the next one to return
  size_t next_ = 0;
  Moments future_;
  Moments::iterator last_used_ = future_.end();
  std::vector<Moments::node_type> spare_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_LINKS_H_
