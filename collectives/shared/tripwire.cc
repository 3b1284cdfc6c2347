#include "collectives/shared/tripwire.h"

#include "collectives/tags.h"

namespace rz {

Tripwire::Tripwire(Transport* transport, const Group& group, uint32_t communicator_id)
    : transport_(transport), losses_(static_cast<size_t>(group.size())) {
  for (int r = 0; r < group.size(); ++r) {
    if (Rank(r) == group.rank()) continue;
    const absl::Status status =
        transport->PostRecv(group.ToTransport(Rank(r)), TripwireTag(communicator_id), {}, this,
                            static_cast<uint64_t>(r));
    if (status.ok()) {
      ++posted_;
    } else {
      losses_[static_cast<size_t>(r)] = status;
      tripped_ = true;
    }
  }
}

void Tripwire::Close() {
  if (closed_) return;
  closed_ = true;
  transport_->CancelReceives(this);
}

void Tripwire::OnComplete(uint64_t rank, const absl::Status& status, size_t) {
  --posted_;
  if (closed_) return;
  losses_[rank] = status.ok() ? absl::InternalError("a message came that nobody sends") : status;
  tripped_ = true;
}

}  // namespace rz
