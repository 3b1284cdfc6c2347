// SharedLink: everything a communicator has of its ranks' shared memory: the area, the exchange of
// calls, the engine that carries them out, and the wire that tells of ranks that are gone.
#ifndef RINGZERO_COLLECTIVES_SHARED_SHARED_LINK_H_
#define RINGZERO_COLLECTIVES_SHARED_SHARED_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "collectives/shared/shared_area.h"
#include "collectives/shared/shared_engine.h"
#include "collectives/shared/shared_exchange.h"
#include "collectives/shared/shared_regions.h"
#include "collectives/shared/tripwire.h"
#include "runtime/base/clock.h"
#include "runtime/transport/transport.h"

namespace rz {

class SharedLink {
 public:
  // The area is mapped. Calls up to `last` were made over messages. `cores_are_few`: the job has
  // more ranks on this host than they have cores, so waits are brief. `spins`: as in
  // CommunicatorOptions.
  SharedLink(Transport* transport, const Group& group, uint32_t communicator_id,
             std::unique_ptr<SharedArea> area, int64_t last, const Clock* clock,
             SharedEngine::FinishedCallback on_finished, bool cores_are_few,
             std::optional<int> spins = std::nullopt);

  SharedExchange& exchange() { return exchange_; }
  const SharedExchange& exchange() const { return exchange_; }
  SharedEngine& engine() { return engine_; }
  const SharedEngine& engine() const { return engine_; }
  SharedRegions& regions() { return regions_; }
  // All ranks can copy from the others' processes.
  bool fetches() const { return area_->fetches(); }
  // Of this rank's part of the area.
  size_t scratch_bytes() const { return area_->bytes(); }

  // Moves what can be moved, without the transport; returns how much.
  int Poll();

  // OK, or why a call under way cannot end: a rank is gone, or its memory.
  absl::Status trouble() const;

  // Waits until Poll may have something to do, or `deadline` has passed: spins briefly, then gives
  // the core away, then sleeps. Called again and again while Poll moves nothing. `patient`: does
  // not spin for long, since what is awaited may have to come over a network.
  void Wait(Deadline deadline, bool patient = false);

  // Polls of a call before its caller looks at the clock and waits.
  int brief_polls() const { return brief_polls_; }

  // What others were to be told of this rank's calls is written.
  void Close() { tripwire_.Close(); }
  bool idle() const { return tripwire_.idle(); }

 private:
  Transport* const transport_;
  const Group group_;
  const Clock* const clock_;
  const std::unique_ptr<SharedArea> area_;
  SharedExchange exchange_;
  SharedRegions regions_;
  SharedEngine engine_;
  Tripwire tripwire_;
  const int spins_;
  const int brief_polls_;
  int waits_ = 0;  // since something moved
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_SHARED_LINK_H_
