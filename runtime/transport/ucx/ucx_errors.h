// The words of the UCX transport's errors.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_ERRORS_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_ERRORS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "runtime/base/types.h"
#include "runtime/transport/transport.h"

namespace rz {

// To be added to an error: that UCX has no TCP here, and why; empty where it has network devices.
std::string WhyNoTcp(const std::string& network_devices = "/sys/class/net");

// A message longer than the receive it met: OutOfRange.
absl::Status TruncatedError(Rank self, Rank source, Tag tag, size_t capacity);

// The connection to `peer` broke; `reason` is UCX's word for it: Unavailable.
absl::Status PeerLostError(Rank self, Rank peer, Epoch epoch, std::string_view reason);

// `peer` closed its transport in order: Unavailable.
absl::Status PeerLeftError(Rank self, Rank peer, Epoch epoch);

// `peer` gave up: Unavailable.
absl::Status PeerAbortedError(Rank self, Rank peer, Epoch epoch);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_ERRORS_H_
