// Tripwire: how a rank that works through shared memory learns that another one is gone. Nothing of
// the transport is under way on that path, so one receive from each rank is kept posted that nobody
// ever sends to; it ends when the peer dies, aborts or leaves. A process that has ended and whose
// parent has not asked for it yet is a death that transports do not see: those of this host are
// watched beside.
#ifndef RINGZERO_COLLECTIVES_SHARED_TRIPWIRE_H_
#define RINGZERO_COLLECTIVES_SHARED_TRIPWIRE_H_

#include <poll.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "collectives/group.h"
#include "runtime/transport/transport.h"

namespace rz {

class Tripwire final : public CompletionSink {
 public:
  // The transport outlives the wire, and the wire what it has posted: see idle().
  Tripwire(Transport* transport, const Group& group, uint32_t communicator_id);
  ~Tripwire();

  // `rank` is this process, in this one's PID namespace. Another one than the own is watched.
  void Watch(int rank, int64_t process);
  // Looks whether one of those has ended: a system call.
  void Look();

  // Some rank is gone.
  bool tripped() const { return tripped_; }
  // OK, or how `rank` went.
  const absl::Status& LossOf(int rank) const { return losses_[static_cast<size_t>(rank)]; }

  // Takes the receives back.
  void Close();
  bool idle() const { return posted_ == 0; }

  void OnComplete(uint64_t rank, const absl::Status& status, size_t bytes) override;

 private:
  Transport* const transport_;
  std::vector<absl::Status> losses_;  // by rank
  std::vector<pollfd> watched_;
  std::vector<int> watched_ranks_;  // of those, at the same places
  bool tripped_ = false;
  bool closed_ = false;
  int posted_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_TRIPWIRE_H_
