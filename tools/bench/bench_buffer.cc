#include "tools/bench/bench_buffer.h"

namespace rz {

absl::StatusOr<Buffer> AllocateBuffer(size_t bytes, Registration registration) {
  if (registration == Registration::kRegistered) {
    return absl::UnimplementedError(
        "-R 1: this build has no rz_mem_alloc; -R 0 takes private memory");
  }
  return Buffer::Allocate(bytes, MemoryTag::kOther);
}

}  // namespace rz
