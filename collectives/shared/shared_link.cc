#include "collectives/shared/shared_link.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/shared/shared_limits.h"

namespace rz {
namespace {

void PauseCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

SharedLink::SharedLink(Transport* transport, const Group& group, uint32_t communicator_id,
                       std::unique_ptr<SharedArea> area, int64_t last, const Clock* clock,
                       SharedEngine::FinishedCallback on_finished, bool cores_are_few,
                       std::optional<int> spins)
    : transport_(transport),
      group_(group),
      clock_(clock),
      area_(std::move(area)),
      exchange_(area_.get(), last),
      regions_(transport, group, area_.get()),
      engine_(area_.get(), &exchange_, &regions_, std::move(on_finished)),
      tripwire_(transport, group, communicator_id),
      spins_(spins.value_or(cores_are_few ? kSpinsWhereCoresAreFew : kSpins)),
      brief_polls_(cores_are_few ? kBriefPollsWhereCoresAreFew : kBriefPolls) {
  for (int r = 0; r < area_->world(); ++r) {
    tripwire_.Watch(r, area_->Header(r).process.value.load(std::memory_order_acquire));
  }
}

int SharedLink::Poll() {
  int moved = exchange_.Poll() ? 1 : 0;
  moved += engine_.Poll();
  if (moved > 0) waits_ = 0;
  // Also where nothing moved: the last to call has found the others' lines as it called.
  exchange_.Release(engine_.idle() ? exchange_.agreed() : engine_.oldest() - 1);
  return moved;
}

absl::Status SharedLink::trouble() const {
  // Memory that cannot be reached tells of a rank that is gone sooner than the wire.
  if (!engine_.trouble().ok() || !tripwire_.tripped()) return engine_.trouble();
  const int rank = engine_.idle() ? exchange_.FirstLate() : engine_.WaitsFor();
  if (rank < 0 || tripwire_.LossOf(rank).ok()) return absl::OkStatus();
  const absl::Status& loss = tripwire_.LossOf(rank);
  return absl::Status(loss.code(),
                      absl::StrCat(group_.Describe(Rank(rank)),
                                   " is needed and gone: ", absl::string_view(loss.message())));
}

void SharedLink::Wait(Deadline deadline, bool patient) {
  ++waits_;
  const int spins = patient ? std::min(spins_, kSpinsWhereCoresAreFew) : spins_;
  if (waits_ <= spins) {
    PauseCore();
    return;
  }
  if (waits_ <= spins + kYields) {
    sched_yield();
    return;
  }
  // See SharedArea::Notify: whoever stores after this look rings.
  std::atomic<int64_t>& asleep = area_->header().asleep.value;
  asleep.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (Poll() == 0) {
    const Deadline look_up = Deadline::After(*clock_, kLongestSleep);
    transport_->WaitForEvent(deadline.at() < look_up.at() ? deadline : look_up);
    tripwire_.Look();
  }
  asleep.store(0, std::memory_order_relaxed);
}

}  // namespace rz
