// Shared regions over UCX: allocated by its POSIX shared memory (mode 0600, unlinked at creation),
// mapped by a peer as a file that the owner has open.
//
// That is found through /proc/PID/fd, so ranks that do not share a PID namespace cannot, and might
// even find another process there: the key names the file, and a random number at the region's end.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_SHARED_MEMORY_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_SHARED_MEMORY_H_

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/transport/transport.h"

namespace rz {

// Errors as Transport::AllocateShared. `*regions` counts those that are there; it and the context
// outlive the region. Debian's UCX ends the process when a context is closed over one.
absl::StatusOr<std::unique_ptr<SharedMemory>> AllocateUcxShared(ucp_context_h context, size_t bytes,
                                                                std::atomic<int>* regions);

// A peer's region. Errors as Transport::MapShared.
absl::StatusOr<std::unique_ptr<SharedMemory>> MapUcxShared(std::string_view key);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_SHARED_MEMORY_H_
