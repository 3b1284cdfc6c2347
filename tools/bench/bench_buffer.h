// The memory a benchmark's calls work on.
#ifndef RINGZERO_TOOLS_BENCH_BENCH_BUFFER_H_
#define RINGZERO_TOOLS_BENCH_BENCH_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "runtime/memory/memory.h"

namespace rz {

// -R: where buffers come from.
enum class Registration : uint8_t {
  kPlain = 0,       // private memory of the process, as a user's malloc gives it (huge pages asked)
  kRegistered = 1,  // the communicator's: other ranks reach it, where they share memory
};

class BenchBuffer {
 public:
  // Zero-filled, page-aligned. A registered one goes before its communicator ends.
  //   ResourceExhausted  there is no memory
  static absl::StatusOr<BenchBuffer> Allocate(Communicator* communicator, size_t bytes,
                                              Registration registration);

  std::byte* data() const { return is_registered_ ? registered_.data() : plain_.data(); }

  // Other ranks reach it.
  bool is_shared() const { return registered_.is_shared(); }

 private:
  BenchBuffer() = default;

  bool is_registered_ = false;
  Buffer plain_;
  CommunicatorBuffer registered_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_BENCH_BUFFER_H_
