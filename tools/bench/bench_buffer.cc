#include "tools/bench/bench_buffer.h"

#include "runtime/base/status_macros.h"

namespace rz {

absl::StatusOr<BenchBuffer> BenchBuffer::Allocate(Communicator* communicator, size_t bytes,
                                                  Registration registration) {
  BenchBuffer buffer;
  buffer.is_registered_ = registration == Registration::kRegistered;
  if (buffer.is_registered_) {
    RZ_ASSIGN_OR_RETURN(buffer.registered_, communicator->AllocateBuffer(bytes));
  } else {
    RZ_ASSIGN_OR_RETURN(buffer.plain_, Buffer::Allocate(bytes, MemoryTag::kOther));
  }
  return buffer;
}

}  // namespace rz
