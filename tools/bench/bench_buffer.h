// The memory a benchmark's calls work on.
#ifndef RINGZERO_TOOLS_BENCH_BENCH_BUFFER_H_
#define RINGZERO_TOOLS_BENCH_BENCH_BUFFER_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "runtime/memory/memory.h"

namespace rz {

// -R: where buffers come from.
enum class Registration : uint8_t {
  kPlain = 0,       // private memory of the process, as a user's malloc gives it (huge pages asked)
  kRegistered = 1,  // rz_mem_alloc: memory that the ranks of a host share
};

// Zero-filled, page-aligned.
//   Unimplemented      kRegistered, which this build cannot give
//   ResourceExhausted  there is no memory
absl::StatusOr<Buffer> AllocateBuffer(size_t bytes, Registration registration);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_BENCH_BUFFER_H_
