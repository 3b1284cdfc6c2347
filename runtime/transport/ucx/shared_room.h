// Whether a host can give so much shared memory. To be asked first: the system gives it page by
// page and takes back nothing where the last ones are missing, until the host has none left. It is
// a look and no reservation, and a limit of the control group that the process is in is not seen.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_SHARED_ROOM_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_SHARED_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace rz {

// Where shared memory is a file system.
inline constexpr char kSharedMemoryDirectory[] = "/dev/shm";

// Bytes; nothing where the system does not say.
std::optional<uint64_t> FreeSharedMemory();

//   ResourceExhausted  kSharedMemoryDirectory or the host has less free; the message has the
//                      numbers. Where the system does not say, there is room
absl::Status CheckSharedRoom(size_t bytes);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_SHARED_ROOM_H_
