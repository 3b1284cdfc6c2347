#include "optimizer/deferred_gathers.h"

#include "runtime/base/status_macros.h"

namespace rz {

DeferredGathers::DeferredGathers(Communicator* communicator, StepTimeline* timeline, size_t units,
                                 size_t buckets)
    : communicator_(communicator), timeline_(timeline), pending_of_(units) {
  gathers_.reserve(buckets);
}

void DeferredGathers::Add(const Operation& operation, StepPlace place) {
  gathers_.push_back({operation, place});
  ++pending_of_[static_cast<size_t>(place.unit)];
}

absl::Status DeferredGathers::Poll() {
  if (!pending()) return absl::OkStatus();
  const StepSection moving(timeline_, StepPart::kCommunication);
  while (pending()) {
    Gather& next = gathers_[ended_];
    if (!next.operation.Poll()) return absl::OkStatus();
    RZ_RETURN_IF_ERROR(next.operation.status());
    timeline_->CollectiveEnded(TraceKind::kGather, next.place);
    --pending_of_[static_cast<size_t>(next.place.unit)];
    ++ended_;
  }
  gathers_.clear();
  ended_ = 0;
  return absl::OkStatus();
}

absl::Status DeferredGathers::AwaitNext() {
  const StepSection waiting(timeline_, StepPart::kCommunication);
  RZ_RETURN_IF_ERROR(gathers_[ended_].operation.Wait());
  return Poll();
}

absl::Status DeferredGathers::Await(size_t unit) {
  while (IsPending(unit)) RZ_RETURN_IF_ERROR(AwaitNext());
  return absl::OkStatus();
}

absl::Status DeferredGathers::AwaitAll() {
  while (pending()) RZ_RETURN_IF_ERROR(AwaitNext());
  return absl::OkStatus();
}

void DeferredGathers::Abandon() {
  if (!pending()) return;
  communicator_->Abort(absl::CancelledError("the optimizer was destroyed during a gather"));
  for (; ended_ < gathers_.size(); ++ended_) {
    while (!gathers_[ended_].operation.Poll()) {
    }
  }
}

}  // namespace rz
