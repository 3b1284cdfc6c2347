// SimWorld: N ranks in one thread over simulated wires, for tests that explore orders of events.
//
// With links (SimOptions::links) it is for questions of time instead: messages arrive when the
// links say, in the order of that, and the clock shows it. Nothing is drawn then, computing takes
// no time, and every send is eager. Without links time stands still as described below.
//
// Each rank gets a Transport that keeps the whole contract of transport.h. Which message is
// delivered next and which rank is polled next come from a seed; so does, in kMixed, whether a send
// completes at once (eager) or with its receive (rendezvous). Time stands still unless somebody
// waits in vain or nothing else can happen. The same seed gives the same run.
//
// Everything is called from one thread, Transport::Abort and Wake excepted.
#ifndef RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_WORLD_H_
#define RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/types.h"
#include "runtime/transport/sim/sim_links.h"
#include "runtime/transport/sim/sim_memory.h"
#include "runtime/transport/sim/sim_network.h"
#include "runtime/transport/transport.h"

namespace rz {

class SimTransport;

// A rank dies just before the world's event `at_event` (events are posts and deliveries).
struct SimFault {
  Rank victim;
  int64_t at_event = 0;
  bool silent = false;  // nobody is told: a host that went away, not a process that was killed
};

enum class SendMode : uint8_t { kEager, kRendezvous, kMixed };

struct SimOptions {
  uint64_t seed = 1;
  SendMode send_mode = SendMode::kMixed;

  // Fills the memory of a posted receive with garbage, so that whoever reads it early is found out.
  bool scribble_receives = true;

  // False: each transport waits for Connect; rank r of a plain world is then "sim:r".
  bool connected = true;

  // With nothing under way, how often each rank is polled in vain before that is a deadlock: more
  // than it may need from one operation to the next without touching the wires.
  int idle_polls = 8;

  // With nothing under way, this much time passes once before that is a deadlock: ranks may wait a
  // moment for something that does not come before they go on.
  absl::Duration last_resort = absl::Seconds(5);

  // The host of each rank: ranks of one host share memory. Empty: all are on one.
  std::vector<int> hosts = {};

  std::optional<SimFault> fault = std::nullopt;

  // What carries the messages, if time matters; CheckLinks(*links) is OK. Where ranks share memory
  // is still for `hosts` to say.
  std::optional<LinkOptions> links = std::nullopt;
};

class SimWorld {
 public:
  // world_size >= 1.
  SimWorld(int world_size, SimOptions options);
  ~SimWorld();

  int world_size() const { return static_cast<int>(transports_.size()); }

  // Owned by the world.
  Transport* transport(Rank rank);
  ManualClock* clock() { return &clock_; }

  // Draws everything from now on from `seed`.
  void Reseed(uint64_t seed) { network_.Reseed(seed); }

  // The links with their counters and their time, of which the clock shows whole nanoseconds; null:
  // there are none.
  const SimLinks* links() const { return network_.links(); }

  // Polls the ranks, one function each, in drawn order (with links: in that of ranks, those that
  // have something to be told, each until a poll changes nothing) until every function of a living
  // rank has returned true. A function is not called again after that, nor after its rank's death.
  //   FailedPrecondition  deadlock: nothing is under way and no poll changes anything, shared
  //                       memory included; the message says who waits for whom. The world may be
  //                       run on (after Abort, say).
  absl::Status Run(absl::Span<const std::function<bool()>> ranks);

  // Kills a rank now.
  void Kill(Rank victim, bool silent);
  bool IsDead(Rank rank) const;

  int64_t events() const { return network_.events(); }

  // Who waits for whom, one line each.
  std::string WaitingReport() const;

 private:
  friend class SimTransport;

  // A call of Progress lets some messages travel.
  void DeliverSome();

  // Carries out the fault that is due.
  void CheckFault();

  //   Unavailable  the peer is known to be dead
  absl::Status CheckPeer(int endpoint, Rank peer) const;

  bool DrawEager();
  int network_endpoints() const { return endpoints_; }
  bool HasCompletions(int endpoint) { return !network_.completions(endpoint).empty(); }

  absl::Status RunInTime(absl::Span<const std::function<bool()>> ranks);

  // Goes on to the links' next moment; false: nothing is under way.
  bool Step();

  // The next rank to poll: mostly one that has something to be told, sometimes any.
  int PickRank(const std::vector<bool>& done);

  // Polls everybody in turn, several times; true when something changed.
  bool PollInTurn(absl::Span<const std::function<bool()>> ranks, std::vector<bool>& done);

  const int endpoints_;
  SimOptions options_;
  ManualClock clock_;
  SimNetwork network_;
  SimMemory memory_;
  std::vector<std::unique_ptr<SimTransport>> transports_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_WORLD_H_
