// What every Transport's shared link must pass.
#ifndef RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SHARED_MEMORY_H_
#define RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SHARED_MEMORY_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/transport/transport.h"

namespace rz::conformance {

// Every rank allocates regions, every other one maps them, and each sees what the others store,
// also when the owner has given its region back. The transports are connected, all in this
// process. Returns what went wrong.
std::vector<std::string> CheckSharedMemory(absl::Span<Transport* const> transports);

}  // namespace rz::conformance

#endif  // RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_SHARED_MEMORY_H_
