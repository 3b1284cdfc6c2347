// Copies out of another process of this host, by the system: one copy, where a slot takes two.
#ifndef RINGZERO_COLLECTIVES_SHARED_FETCH_H_
#define RINGZERO_COLLECTIVES_SHARED_FETCH_H_

#include <cstddef>
#include <cstdint>

namespace rz {

// `from` is an address there. False: the system does not allow it, the process is gone, or there is
// no such memory; `to` holds anything then.
bool Fetch(int64_t process, std::byte* to, const std::byte* from, size_t bytes);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_FETCH_H_
