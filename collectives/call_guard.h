// CallGuard: what a communicator does about calls beside carrying them out. It describes each one,
// compares it with the neighbours' (control_channel.h), records it (flight_recorder.h), and says
// when and of what the communicator has to fail.
//
//   verdict   The ranks do not make the same calls. The verdict gets a moment to leave for the
//             others, then it is the failure.
//   trouble   A transfer failed. That is mostly the echo of a rank that has failed already, so a
//             verdict that explains it is waited for; if none comes, the trouble is the failure.
//
// An operation ends only when the neighbours are known to have made the same call (one of no
// elements at once, if they have made the one before). So of two neighbours that differ both are
// still in their calls when they learn it, whatever the calls are: also a root that has sent
// everything, a leaf that needs no answer. It also bounds how far a rank can run ahead. Threads:
// the communicator's owner; Record from any.
#ifndef RINGZERO_COLLECTIVES_CALL_GUARD_H_
#define RINGZERO_COLLECTIVES_CALL_GUARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "collectives/call_descriptor.h"
#include "collectives/control_channel.h"
#include "collectives/flight/flight_recorder.h"
#include "collectives/flight/flight_signal.h"
#include "collectives/group.h"
#include "collectives/shared/shared_exchange.h"
#include "runtime/base/clock.h"
#include "runtime/transport/transport.h"

namespace rz {

struct CallGuardOptions {
  uint32_t communicator_id = 0;
  bool check_calls = true;
  bool record_calls = true;
  // Where flight records go on failure and on SIGUSR2; empty: nowhere.
  std::string flight_dir;
  const Clock* clock = Clock::Steady();
};

class CallGuard {
 public:
  // Transport and listener outlive the guard, and the guard what it has posted: see idle().
  CallGuard(Transport* transport, const Group& group, ControlListener* listener,
            const CallGuardOptions& options);
  ~CallGuard();

  // From the next call on, calls are compared through shared memory; the exchange outlives the
  // guard.
  void UseSharedMemory(SharedExchange* exchange) {
    shared_ = exchange;
    shared_from_ = call_.number;
  }

  // The next call, of which everything but number and history is filled in. Its messages leave with
  // End. Returns the call's fingerprint, for the tags of its lanes.
  uint32_t Begin(CallDescriptor call);
  void End();

  // Number of the last call; 0: none.
  int64_t last() const { return call_.number; }

  void OnFinished(int64_t number, bool ok);

  // As far as the neighbours are concerned, operation `number` may end.
  bool MayEnd(int64_t number) const {
    if (shared_ != nullptr && number > shared_from_) return shared_->MayEnd(number);
    return channel_ == nullptr || channel_->MayEnd(number);
  }

  // What the communicator has to fail of now, OK: nothing. `trouble` is what went wrong with
  // transfers, if anything did.
  absl::Status Judge(const absl::Status& trouble);

  // Verdict or trouble as of now, for a communicator whose parent judges.
  absl::Status Symptom(const absl::Status& trouble) const;

  // OK, or why it will never be known whether a neighbour makes the last call.
  absl::Status LossOfLast() const;

  // Verdict or trouble, though the communicator may not have to fail yet.
  const absl::Status& pending_failure() const { return verdict().ok() ? trouble_ : verdict(); }
  // When Judge may change its mind by itself.
  Deadline decision_deadline() const;

  // OK, or which ranks have made different calls.
  const absl::Status& verdict() const {
    return shared_ != nullptr ? shared_->verdict() : VerdictOfChannel();
  }

  // Null where calls are not checked.
  ControlChannel* channel() { return channel_.get(); }

  std::string DescribeNeighbours() const;
  int64_t control_bytes() const { return channel_ == nullptr ? 0 : channel_->bytes_sent(); }

  // The neighbours' calls are known up to the last one, or will never be.
  bool caught_up() const;
  void Close();
  bool idle() const { return channel_ == nullptr || channel_->idle(); }

  void SetPosition(int64_t number, const FlightPosition& position);
  FlightRecord Record(const std::string& reason) const;

  // The communicator has failed: writes the flight record, where there is a place for it.
  void WriteRecord(const absl::Status& failure);

 private:
  const absl::Status& VerdictOfChannel() const;

  Transport* const transport_;
  const Group group_;
  const CallGuardOptions options_;
  const std::string job_;
  std::unique_ptr<ControlChannel> channel_;
  SharedExchange* shared_ = nullptr;
  int64_t shared_from_ = 0;  // the last call over the channel
  std::unique_ptr<FlightRecorder> recorder_;
  std::unique_ptr<FlightSignal> signal_;

  CallDescriptor call_;  // the last one
  uint64_t history_ = 0;
  absl::Status trouble_;
  std::optional<Deadline> decision_deadline_;
  bool tells_verdict_ = false;  // and the deadline is for that
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_CALL_GUARD_H_
