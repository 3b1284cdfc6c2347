#include "collectives/call_guard.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "collectives/flight/flight_dump.h"
#include "collectives/limits.h"
#include "runtime/base/log.h"

namespace rz {
namespace {

std::string JobName() {
  const char* const job = std::getenv("RZ_JOB");
  return job == nullptr || *job == '\0' ? "default" : job;
}

}  // namespace

CallGuard::CallGuard(Transport* transport, const Group& group, ControlListener* listener,
                     const CallGuardOptions& options)
    : transport_(transport), group_(group), options_(options), job_(JobName()) {
  if (options.check_calls) {
    channel_ =
        std::make_unique<ControlChannel>(transport, group, options.communicator_id, listener);
  }
  if (!options.record_calls) return;
  recorder_ = std::make_unique<FlightRecorder>(FlightRecorder::kDefaultCapacity, options.clock);
  if (options.flight_dir.empty()) return;
  signal_ =
      std::make_unique<FlightSignal>(options.flight_dir, [this] { return Record("SIGUSR2"); });
}

CallGuard::~CallGuard() = default;

uint32_t CallGuard::Begin(CallDescriptor call) {
  call.number = call_.number + 1;
  call.history = history_;
  call_ = call;
  const CallHashes hashes = HashesOf(call);
  history_ = hashes.history_after;
  if (recorder_ != nullptr) recorder_->Start(call);
  if (shared_ != nullptr) {
    shared_->BeginCall(call, history_);
  } else if (channel_ != nullptr) {
    channel_->BeginCall(call);
  } else {
    return 0;
  }
  return hashes.fingerprint;
}

void CallGuard::End() {
  if (shared_ != nullptr) {
    shared_->EndCall();
  } else if (channel_ != nullptr) {
    channel_->EndCall();
  }
}

const absl::Status& CallGuard::VerdictOfChannel() const {
  static const auto& ok = *new absl::Status;
  return channel_ == nullptr ? ok : channel_->verdict();
}

void CallGuard::OnFinished(int64_t number, bool ok) {
  if (recorder_ != nullptr) recorder_->End(number, ok ? FlightState::kDone : FlightState::kFailed);
}

absl::Status CallGuard::Judge(const absl::Status& trouble) {
  const bool has_verdict = !verdict().ok();
  if (trouble_.ok()) {
    trouble_ = trouble;
    if (trouble_.ok() && channel_ != nullptr && shared_ == nullptr) trouble_ = channel_->failure();
  }
  if (!has_verdict && trouble_.ok()) [[likely]]
    return absl::OkStatus();
  if (shared_ != nullptr) {
    // Whatever the others have called stands in their memory.
    shared_->LookAhead();
    return pending_failure();
  }
  if (channel_ == nullptr) return trouble_;
  if (has_verdict && channel_->verdict_is_out()) return verdict();
  if (!decision_deadline_.has_value() || (has_verdict && !tells_verdict_)) {
    tells_verdict_ = has_verdict;
    decision_deadline_ =
        Deadline::After(*options_.clock, has_verdict ? kVerdictTellingLimit : kVerdictWait);
  }
  return decision_deadline_->HasPassed(*options_.clock) ? pending_failure() : absl::OkStatus();
}

absl::Status CallGuard::Symptom(const absl::Status& trouble) const {
  if (!verdict().ok()) return verdict();
  return !trouble.ok() || channel_ == nullptr || shared_ != nullptr ? trouble : channel_->failure();
}

absl::Status CallGuard::LossOfLast() const {
  return channel_ == nullptr || shared_ != nullptr ? absl::OkStatus() : channel_->FailureOfLast();
}

Deadline CallGuard::decision_deadline() const {
  return decision_deadline_.value_or(Deadline::InfiniteFuture());
}

std::string CallGuard::DescribeNeighbours() const {
  if (shared_ != nullptr) return shared_->DescribePeers();
  return channel_ == nullptr ? "" : channel_->DescribeNeighbours();
}

bool CallGuard::caught_up() const {
  if (shared_ != nullptr) return shared_->published();
  return channel_ == nullptr || channel_->caught_up() || channel_->lost_a_neighbour();
}

void CallGuard::Close() {
  if (channel_ != nullptr) channel_->Close();
}

void CallGuard::SetPosition(int64_t number, const FlightPosition& position) {
  if (recorder_ != nullptr) recorder_->SetPosition(number, position);
}

FlightRecord CallGuard::Record(const std::string& reason) const {
  FlightRecord record;
  record.job = job_;
  record.rank = group_.rank().value();
  record.job_rank = transport_->rank().value();
  record.world_size = group_.size();
  record.communicator = options_.communicator_id;
  record.reason = reason;
  record.taken = absl::Now();
  if (recorder_ == nullptr) return record;
  record.entries = recorder_->Entries();
  record.last_number = recorder_->last_number();
  return record;
}

void CallGuard::WriteRecord(const absl::Status& failure) {
  if (options_.flight_dir.empty()) return;
  const absl::Status written =
      WriteFlightRecord(Record(std::string(failure.message())), options_.flight_dir);
  if (!written.ok()) {
    Log(LogLevel::kWarning, "no flight record: ", absl::string_view(written.message()));
  }
}

}  // namespace rz
