#include "collectives/shared/tripwire.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
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

Tripwire::~Tripwire() {
  for (const pollfd& each : watched_) close(each.fd);
}

void Tripwire::Watch(int rank, int64_t process) {
  if (process <= 0 || process == getpid()) return;
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0));
  if (fd < 0) return;  // an old kernel; or gone already, which the receive tells
  watched_.push_back({fd, POLLIN, 0});
  watched_ranks_.push_back(rank);
}

void Tripwire::Look() {
  if (watched_.empty() || poll(watched_.data(), watched_.size(), 0) <= 0) return;
  for (size_t i = watched_.size(); i-- > 0;) {
    if (watched_[i].revents == 0) continue;
    absl::Status& loss = losses_[static_cast<size_t>(watched_ranks_[i])];
    if (loss.ok()) {
      loss = absl::UnavailableError(
          absl::StrCat("rank ", watched_ranks_[i], " is dead: its process has ended"));
    }
    tripped_ = true;
    close(watched_[i].fd);
    watched_.erase(watched_.begin() + static_cast<ptrdiff_t>(i));
    watched_ranks_.erase(watched_ranks_.begin() + static_cast<ptrdiff_t>(i));
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
