#include "collectives/shared/fetch.h"

#include <sys/uio.h>

namespace rz {

bool Fetch(int64_t process, std::byte* to, const std::byte* from, size_t bytes) {
  while (bytes > 0) {
    const iovec local = {to, bytes};
    const iovec remote = {const_cast<std::byte*>(from), bytes};
    const ssize_t copied = process_vm_readv(static_cast<pid_t>(process), &local, 1, &remote, 1, 0);
    if (copied <= 0) return false;
    to += copied;
    from += copied;
    bytes -= static_cast<size_t>(copied);
  }
  return true;
}

}  // namespace rz
