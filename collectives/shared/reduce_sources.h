// Reduction of several ranks' inputs that all lie in reach, in one pass.
#ifndef RINGZERO_COLLECTIVES_SHARED_REDUCE_SOURCES_H_
#define RINGZERO_COLLECTIVES_SHARED_REDUCE_SOURCES_H_

#include <cstddef>

#include "absl/types/span.h"
#include "collectives/local_step.h"

namespace rz {

// dst[i] = op over sources[0][i], sources[1][i], ..., in this order, `count` elements in wire
// format: summed in the accumulator's dtype, divided where it is an average, rounded once. At least
// one source. dst may be the same memory as a source. `stream`: past the caches (stream_copy.h).
// A function combines two at a time. False: it failed.
bool ReduceSources(std::byte* dst, absl::Span<const std::byte* const> sources, size_t count,
                   const Arithmetic& arithmetic, bool stream = false);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_REDUCE_SOURCES_H_
