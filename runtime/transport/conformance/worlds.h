// Runs a case of the suite on a backend: in one thread, on a thread a rank, or on a process a rank.
// All return what went wrong, one line each.
#ifndef RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_WORLDS_H_
#define RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_WORLDS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/transport/conformance/scenarios.h"
#include "runtime/transport/transport.h"

namespace rz::conformance {

using TransportFactory = std::function<absl::StatusOr<std::unique_ptr<Transport>>()>;

// Real time a case may take before it counts as stuck; far beyond what a busy machine needs.
inline constexpr absl::Duration kCaseTimeout = absl::Seconds(240);

// Polls the connected `transports` (rank r is transports[r]) in turn in this thread, and calls
// `step`, where given, after each round. `die` ends a rank. For backends that have a scheduler of
// their own: give ScriptRunner::Poll to it instead.
std::vector<std::string> RunInTurn(const Case& c, Capabilities capabilities,
                                   absl::Span<Transport* const> transports,
                                   const std::function<void()>& step = nullptr,
                                   const std::function<void(Rank)>& die = nullptr);

// Every rank is a thread that makes, connects, uses and destroys its own transport.
std::vector<std::string> RunInThreads(const Case& c, Capabilities capabilities,
                                      const TransportFactory& factory);

// Every rank is a process, forked from this one: nothing that dislikes forks may have been used
// here before, and this process has one thread. A rank that dies kills itself with SIGKILL and is
// reaped at once.
std::vector<std::string> RunInProcesses(const Case& c, Capabilities capabilities,
                                        const TransportFactory& factory);

}  // namespace rz::conformance

#endif  // RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_WORLDS_H_
