// Whether a host can give so much shared memory. To be asked first: the system gives it page by
// page and takes back nothing where the last ones are missing, until the host has none left.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_SHARED_ROOM_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_SHARED_ROOM_H_

#include <cstddef>

#include "absl/status/status.h"

namespace rz {

//   ResourceExhausted  /dev/shm or the host has less free; the message has the numbers. Where the
//                      system does not say, there is room
absl::Status CheckSharedRoom(size_t bytes);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_SHARED_ROOM_H_
