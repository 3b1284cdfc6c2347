#include "collectives/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/communicator_ids.h"
#include "collectives/communicator_impl.h"
#include "collectives/limits.h"
#include "collectives/shared/shared_limits.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

absl::Status CheckOptions(const Transport* transport, const CommunicatorOptions& options) {
  if (transport == nullptr || options.clock == nullptr) {
    return absl::InvalidArgumentError("a communicator needs a transport and a clock");
  }
  if (options.slice_bytes < kMinSliceBytes || options.slice_bytes > kMaxSliceBytes) {
    return absl::InvalidArgumentError(absl::StrCat("slice_bytes is ", options.slice_bytes,
                                                   ", allowed are ", kMinSliceBytes, " to ",
                                                   kMaxSliceBytes));
  }
  if (options.lanes_in_flight < 1 || options.lanes_in_flight > kMaxLanesInFlight) {
    return absl::InvalidArgumentError(absl::StrCat("lanes_in_flight is ", options.lanes_in_flight,
                                                   ", allowed are 1 to ", kMaxLanesInFlight));
  }
  const size_t least_slot = static_cast<size_t>(transport->world_size()) * kSharedAlignment;
  if (options.shared_slot_bytes < least_slot) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared_slot_bytes is ", options.shared_slot_bytes, ", the least is ",
                     least_slot, " for ", transport->world_size(), " ranks"));
  }
  if (options.shared_spins.has_value() && *options.shared_spins < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared_spins is ", *options.shared_spins, ", the least is 0"));
  }
  if (options.id > kMaxCommunicatorId) {
    return absl::InvalidArgumentError(
        absl::StrCat("communicator id is ", options.id, ", the largest is ", kMaxCommunicatorId));
  }
  return absl::OkStatus();
}

CallGuardOptions GuardOptions(const CommunicatorOptions& options, bool is_part) {
  CallGuardOptions guard;
  guard.communicator_id = options.id;
  guard.check_calls = options.check_calls;
  guard.clock = options.clock;
  if (is_part) {
    guard.record_calls = false;
    return guard;
  }
  guard.record_calls = options.check_calls;
  guard.flight_dir = options.flight_dir;
  const char* const from_environment = std::getenv("RZ_FLIGHT_DIR");
  if (guard.flight_dir.empty() && from_environment != nullptr) guard.flight_dir = from_environment;
  return guard;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator::Impl>> Communicator::Impl::Create(
    Transport* transport, Group group, CommunicatorOptions options, Role role) {
  RZ_ASSIGN_OR_RETURN(const WantedAlgorithms wanted,
                      ParseAlgorithms(options.algorithms, options.numeric_mode));
  std::shared_ptr<ProgressThread> progress;
  if (role == Role::kWhole) progress = ProgressThread::Of(transport);
  const ProgressThread::Section inside(progress.get());
  RZ_RETURN_IF_ERROR(ClaimCommunicatorId(transport, options.id));
  auto impl = std::make_unique<Impl>(transport, std::move(group), std::move(options), wanted, role);
  impl->progress_ = std::move(progress);
  if (impl->progress_ != nullptr) impl->progress_->Add(impl.get());
  return impl;
}

Communicator::Impl::Impl(Transport* transport, Group group, CommunicatorOptions options,
                         WantedAlgorithms wanted, Role role)
    : transport_(transport),
      group_(std::move(group)),
      options_(std::move(options)),
      role_(role),
      selector_(group_.size(), options_.slice_bytes, options_.link, wanted),
      schedules_(group_.rank(), group_.size()),
      guard_(std::make_unique<CallGuard>(transport, group_, static_cast<ControlListener*>(this),
                                         GuardOptions(options_, role == Role::kPart))),
      executor_(
          std::make_unique<Executor>(transport, group_, options_.id, options_.lanes_in_flight)),
      messages_(std::make_unique<PointToPoint>(transport, group_, options_.id)) {
  executor_->UseChannel(guard_->channel());
  executor_->set_on_finished(
      [this](int64_t number, const absl::Status& result) { OnFinished(number, result); });
}

// Memory that the transport still holds must not be freed: it is given time to let go, and what it
// does not let go of stays allocated for good.
Communicator::Impl::~Impl() {
  if (quiet() && !executor_->failed()) CatchUp();
  if (!idle() || !guard_->idle()) Drain();
  executor_->set_on_finished(nullptr);
  if (idle()) hierarchy_.reset();  // its parts end as this does
  if (!guard_->idle() || !idle()) {
    Log(LogLevel::kError, group_.DescribeSelf(),
        ": the transport did not end its operations after Abort; their memory is leaked");
    static_cast<void>(guard_.release());
    static_cast<void>(executor_.release());
    static_cast<void>(messages_.release());
    static_cast<void>(shared_.release());
    static_cast<void>(hierarchy_.release());
    for (auto& pack : packs_) static_cast<void>(pack.release());
  }
  if (progress_ != nullptr) progress_->Remove(this);
  ReleaseCommunicatorId(transport_, options_.id);
}

// A call that has ended here may still be on its way to others: what is only abandoned is taken
// back, and the transport goes on.
void Communicator::Impl::CatchUp() {
  const Deadline deadline = Deadline::After(*options_.clock, kCatchUpWait);
  const auto waits = [&](bool reached) {
    return !reached && !executor_->failed() && !deadline.HasPassed(*options_.clock);
  };
  while (waits(guard_->caught_up())) {
    if (PollAll() == 0 && waits(guard_->caught_up())) WaitForMovement(deadline);
  }
  if (executor_->failed()) return;
  guard_->Close();
  if (shared_ != nullptr) shared_->Close();
  // Where nobody moves the peers (a simulation), waiting does not help: then idle polls are
  // counted.
  const auto let_go = [this] { return guard_->idle() && idle(); };
  for (int idle_polls = 0; waits(let_go()) && idle_polls < kMostIdlePolls;) {
    if (Poll() > 0) continue;
    ++idle_polls;
    if (waits(let_go())) transport_->WaitForEvent(deadline);
  }
}

void Communicator::Impl::Drain() {
  Fail(absl::CancelledError(absl::StrCat(
      group_.DescribeSelf(), ": the communicator was destroyed while operations were under way")));
  const Deadline deadline = DrainDeadline();
  const auto waits = [&] {
    return (!idle() || !guard_->idle()) && !deadline.HasPassed(*Clock::Steady());
  };
  if (hierarchy_ != nullptr) hierarchy_->Fail(executor_->failure());
  while (waits()) {
    const int moved = executor_->Poll() + (hierarchy_ == nullptr ? 0 : hierarchy_->Poll());
    if (moved == 0 && waits()) transport_->WaitForEvent(deadline);
  }
}

Deadline Communicator::Impl::DrainDeadline() {
  if (!drain_deadline_.has_value()) {
    drain_deadline_ = Deadline::After(*Clock::Steady(), kAbortDrain);
  }
  return *drain_deadline_;
}

absl::Status Communicator::Impl::status() const {
  if (executor_->failed()) return executor_->failure();
  if (executor_->abort_requested()) return executor_->abort_cause();
  return guard_->pending_failure();
}

bool Communicator::Impl::quiet() const {
  return executor_->idle() && messages_->idle() &&
         (shared_ == nullptr || shared_->engine().idle()) &&
         (hierarchy_ == nullptr || hierarchy_->idle());
}

absl::Status Communicator::Impl::trouble() const {
  if (!executor_->trouble().ok()) return executor_->trouble();
  if (!messages_->failure().ok()) return messages_->failure();
  if (shared_ != nullptr) return shared_->trouble();
  if (hierarchy_ == nullptr) return absl::OkStatus();
  // No transfer tells of a neighbour that is gone and is in none of this rank's parts.
  const bool data_is_here = hierarchy_->idle() && executor_->idle();
  return data_is_here ? guard_->LossOfLast() : hierarchy_->trouble();
}

absl::Status Communicator::Impl::Symptom() const {
  return executor_->failed() ? executor_->failure() : guard_->Symptom(trouble());
}

// What is told to a caller is final: it must not be the echo of what is about to come.
absl::Status Communicator::Impl::CheckUsable() {
  if (role_ == Role::kPart) return Symptom();
  while (!executor_->failed() && !executor_->abort_requested() && !guard_->pending_failure().ok()) {
    if (Poll() == 0 && !executor_->failed()) {
      transport_->WaitForEvent(guard_->decision_deadline());
    }
  }
  return status();
}

void Communicator::Impl::Fail(const absl::Status& cause) {
  if (executor_->failed()) return;
  executor_->Fail(cause);
}

int64_t Communicator::Impl::FirstRunning(int64_t first, int64_t last) const {
  int64_t running = executor_->FirstRunning(first, last);
  if (shared_ != nullptr) running = std::min(running, shared_->engine().FirstRunning(first, last));
  return hierarchy_ == nullptr ? running : std::min(running, hierarchy_->FirstRunning(first, last));
}

int Communicator::Impl::Poll() {
  int moved = shared_ == nullptr ? 0 : shared_->Poll();
  if (hierarchy_ != nullptr) moved += hierarchy_->Poll();
  const bool transport_waits = executor_->idle() && messages_->idle() && shared_ != nullptr &&
                               ++polls_without_transport_ < kPollsBeforeTransport;
  if (!transport_waits) {
    polls_without_transport_ = 0;
    moved += executor_->Poll();
  }
  // Two sides of a message that differ are their own cause.
  if (!messages_->failure().ok() && absl::IsFailedPrecondition(messages_->failure())) {
    Fail(messages_->failure());
  }
  if (!executor_->failed() && role_ == Role::kWhole) {
    const absl::Status failure = guard_->Judge(trouble());
    if (!failure.ok()) Fail(failure);
  }
  if (!executor_->failed()) {
    if (moved > 0) {
      fruitless_polls_ = 0;
    } else if (++fruitless_polls_ == kPollsBeforePosition && role_ == Role::kWhole) {
      RecordPosition(FirstRunning(1, guard_->last()));
    }
    return moved;
  }
  messages_->Fail(executor_->failure());
  if (shared_ != nullptr) shared_->engine().Fail(executor_->failure());
  if (hierarchy_ != nullptr) hierarchy_->Fail(executor_->failure());
  if (!record_written_) {
    record_written_ = true;
    guard_->WriteRecord(executor_->failure());
  }
  if (!idle() && DrainDeadline().HasPassed(*Clock::Steady())) {
    executor_->Abandon();
    messages_->Abandon();
  }
  return moved;
}

bool Communicator::Impl::IsDone(const Operation& operation) const {
  return operation.kind_ == Operation::Kind::kMessage
             ? messages_->IsDone(operation.first_)
             : executor_->AreDone(operation.first_, operation.last_) &&
                   (shared_ == nullptr ||
                    shared_->engine().AreDone(operation.first_, operation.last_)) &&
                   (hierarchy_ == nullptr ||
                    hierarchy_->AreDone(operation.first_, operation.last_)) &&
                   (executor_->failed() || guard_->MayEnd(operation.last_));
}

absl::Status Communicator::Impl::ResultOf(const Operation& operation) const {
  if (operation.kind_ == Operation::Kind::kMessage) return messages_->ResultOf(operation.first_);
  // Its data was complete, but not yet known to be right.
  if (executor_->failed() && !guard_->MayEnd(operation.last_)) return executor_->failure();
  if (shared_ != nullptr && shared_->engine().HasFailed(operation.first_, operation.last_)) {
    return executor_->failure();
  }
  if (hierarchy_ != nullptr && hierarchy_->HasFailed(operation.first_, operation.last_)) {
    return executor_->failure();
  }
  return executor_->ResultOf(operation.first_, operation.last_);
}

bool Communicator::Impl::WaitBriefly(const Operation& operation) {
  if (shared_ == nullptr) return false;
  for (int i = 0; i < shared_->brief_polls(); ++i) {
    Poll();
    if (IsDone(operation)) return true;
  }
  return false;
}

void Communicator::Impl::WaitForMovement(Deadline deadline) {
  deadline = NextLook(deadline);
  if (shared_ != nullptr) {
    shared_->Wait(deadline);
  } else if (hierarchy_ != nullptr && !hierarchy_->idle()) {
    local_->shared_->Wait(deadline, /*patient=*/true);
  } else {
    transport_->WaitForEvent(deadline);
  }
}

absl::Status Communicator::Impl::Wait(const Operation& operation, absl::Duration timeout) {
  const ProgressThread::Section inside(progress());
  if (WaitBriefly(operation)) return ResultOf(operation);
  const Deadline deadline = Deadline::After(*options_.clock, timeout);
  while (!IsDone(operation)) {
    if (PollAll() > 0 || IsDone(operation)) continue;
    if (executor_->failed()) {
      transport_->WaitForEvent(DrainDeadline());
    } else if (!guard_->pending_failure().ok()) {
      transport_->WaitForEvent(guard_->decision_deadline());
    } else if (deadline.HasPassed(*options_.clock)) {
      Fail(DeadlineError(operation, timeout));
    } else {
      if (operation.kind_ != Operation::Kind::kMessage) {
        RecordPosition(FirstRunning(operation.first_, operation.last_));
      }
      WaitForMovement(deadline);
    }
  }
  return ResultOf(operation);
}

const WireCounters& Communicator::Impl::wire_counters() {
  counters_ = executor_->wire_counters();
  counters_.messages = messages_->payload_bytes();
  counters_.control += messages_->header_bytes() + guard_->control_bytes();
  counters_.between_hosts += messages_->bytes_between_hosts();
  // A column's calls are of the collective that they are a stage of.
  if (column_ != nullptr) counters_ += column_->wire_counters();
  return counters_;
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Create(Transport* transport,
                                                                   CommunicatorOptions options) {
  RZ_RETURN_IF_ERROR(CheckOptions(transport, options));
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl,
                      Impl::Create(transport, Group(*transport), std::move(options)));
  return std::unique_ptr<Communicator>(new Communicator(std::move(impl)));
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Communicator::~Communicator() {
  while (impl_->has_progress_thread()) impl_->StopProgressThread();
  // That of other communicators of the transport may go on.
  const std::shared_ptr<ProgressThread> progress = impl_->shared_progress();
  const ProgressThread::Section inside(progress.get());
  impl_.reset();
}

Rank Communicator::rank() const { return impl_->group().rank(); }
int Communicator::world_size() const { return impl_->group().size(); }
bool Communicator::shares_memory() const { return impl_->shares_memory(); }
size_t Communicator::shared_scratch_bytes() const { return impl_->shared_scratch_bytes(); }
int Communicator::hosts() const { return impl_->hosts(); }
int Communicator::ranks_of_each_host() const { return impl_->ranks_of_each_host(); }

void Communicator::Abort(absl::Status cause) {
  impl_->executor().RequestAbort(cause);
  impl_->progress()->Wake();
}

absl::Status Communicator::status() const {
  const ProgressThread::Section inside(impl_->progress());
  return impl_->status();
}

rz::FlightRecord Communicator::FlightRecord() const { return impl_->guard().Record("asked for"); }

const WireCounters& Communicator::wire_counters() const {
  const ProgressThread::Section inside(impl_->progress());
  return impl_->wire_counters();
}

absl::StatusOr<Explanation> Communicator::Explain(Collective collective, DType dtype, ReduceOp op,
                                                  int64_t count, CallOptions call) const {
  return Explain(
      {.collective = collective, .count = count, .dtype = dtype, .op = op, .options = call});
}

absl::StatusOr<Explanation> Communicator::Explain(const Call& call) const {
  const bool has_negative =
      std::any_of(call.counts.begin(), call.counts.end(), [](int64_t count) { return count < 0; });
  if (call.has_counts &&
      (has_negative || call.counts.size() != static_cast<size_t>(world_size()))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a v variant has one count >= 0 for each of ", world_size(), " ranks; there are ",
        call.counts.size(), has_negative ? ", some below 0" : ""));
  }
  return impl_->selector().Explain(impl_->RequestOf(call));
}

absl::StatusOr<Carriage> Communicator::CarriageOf(Collective collective, DType dtype) const {
  return impl_->selector().CarriageOf(collective, dtype, impl_->options().numeric_mode);
}

bool Communicator::RunsShardKernels(DType dtype) const {
  const auto is_shared = [&](Collective collective) {
    const absl::StatusOr<Carriage> carriage = CarriageOf(collective, dtype);
    return carriage.ok() && !carriage->wire.has_value();
  };
  return is_shared(Collective::kAllReduce) && is_shared(Collective::kReduceScatter);
}

bool Operation::Poll() {
  const ProgressThread::Section inside(communicator_->progress());
  if (!done()) communicator_->PollAll();
  return done();
}

bool Operation::done() const {
  const ProgressThread::Section inside(communicator_->progress());
  return communicator_->IsDone(*this);
}

absl::Status Operation::status() const {
  const ProgressThread::Section inside(communicator_->progress());
  if (!done()) return absl::FailedPreconditionError("the operation is still under way");
  return communicator_->ResultOf(*this);
}

absl::Status Operation::Wait(absl::Duration timeout) { return communicator_->Wait(*this, timeout); }

absl::Status Operation::Wait() { return Wait(communicator_->options().operation_timeout); }

}  // namespace rz
