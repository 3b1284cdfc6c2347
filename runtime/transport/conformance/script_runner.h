// ScriptRunner: one rank's part in a scenario. It carries out the script without blocking and
// checks the contract on the way:
//   - every operation completes once, in one of the ways the script allows, and from within
//   Progress
//   - received bytes are the right ones, with their number, and nothing around the buffer changes
//   - a send's memory is scribbled over as soon as the send completes
#ifndef RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SCRIPT_RUNNER_H_
#define RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SCRIPT_RUNNER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "runtime/transport/conformance/scenario.h"
#include "runtime/transport/transport.h"

namespace rz::conformance {

class ScriptRunner final : private CompletionSink {
 public:
  // `die` ends the rank; it may return where the rank is simulated. `transport` outlives the
  // runner.
  ScriptRunner(Transport* transport, Script script, std::function<void()> die = nullptr);
  ~ScriptRunner();

  // Calls Progress and goes on with the script as far as it can; true when it is done. May be
  // called again then, and only calls Progress.
  bool Poll();

  // Nothing can happen before the transport has an event: its rank may sleep.
  bool WaitsForCompletions() const;

  // What went wrong so far, one line each.
  const std::vector<std::string>& failures() const { return failures_; }

  // Where the script stands and what it waits for.
  std::string Position() const;

 private:
  // A posted operation and its memory: guard, payload, guard.
  struct Posted {
    const Action* action = nullptr;
    std::unique_ptr<std::byte[]> memory;
    std::byte* payload = nullptr;
    int completions = 0;
  };

  void OnComplete(uint64_t token, const absl::Status& status, size_t bytes) override;
  // True when `action` is over.
  bool Step(const Action& action);
  void Post(const Action& action, bool must_be_refused);
  void Check(Posted& posted, const absl::Status& status, size_t bytes);
  void CheckPayload(const Posted& posted, size_t bytes);
  void CheckGuards(const Posted& posted);
  void Fail(const Action& action, const std::string& what);
  std::string Describe(const Action& action) const;

  Transport* const transport_;
  const Script script_;
  const std::function<void()> die_;
  size_t position_ = 0;
  int polls_left_ = -1;
  bool dead_ = false;
  bool in_progress_ = false;
  size_t outstanding_ = 0;
  size_t outstanding_receives_ = 0;
  std::vector<Posted> posted_;  // by token
  std::vector<std::thread> threads_;
  std::vector<std::string> failures_;
};

}  // namespace rz::conformance

#endif  // RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SCRIPT_RUNNER_H_
