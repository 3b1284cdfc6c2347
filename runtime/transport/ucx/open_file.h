// A file that has no name any more, but that a process of this host has open and mapped: found by
// the owner, mapped by others through /proc/PID/fd.
//
// UCX 1.13 attaches in the same way, and reads what it has not written where the owner has ended
// meanwhile: the process that attaches ends too.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_OPEN_FILE_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_OPEN_FILE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rz {

// Plain data, to be sent.
struct OpenFile {
  int64_t process = 0;     // 0: none
  int64_t descriptor = 0;  // of that process
  uint64_t device = 0;     // so that another file in its place is not taken for it
  uint64_t inode = 0;
};

// The file of this process that is mapped at `address`, from its beginning; none where memory is of
// no file, or nothing has it open.
OpenFile FindOpenFile(const void* address);

// A mapping of the beginning of `file`, to be read and written, until munmap.
//   Unavailable  it is not there (any more), or is shorter; the process ends of nothing of this
absl::StatusOr<absl::Span<std::byte>> MapOpenFile(const OpenFile& file, size_t bytes);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_OPEN_FILE_H_
