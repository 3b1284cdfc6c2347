// Copies past the caches, for results too large to stay there: a plain store first reads the line
// it writes.
#ifndef RINGZERO_COLLECTIVES_SHARED_STREAM_COPY_H_
#define RINGZERO_COLLECTIVES_SHARED_STREAM_COPY_H_

#include <cstddef>

namespace rz {

// As memcpy. Later stores of this thread are seen by others after those of the copy.
void StreamCopy(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_STREAM_COPY_H_
