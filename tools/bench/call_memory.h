// CallMemory: the buffers of a measured call, and what is in them before and after.
#ifndef RINGZERO_TOOLS_BENCH_CALL_MEMORY_H_
#define RINGZERO_TOOLS_BENCH_CALL_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "runtime/base/dtype.h"
#include "runtime/base/types.h"
#include "tools/bench/bench_buffer.h"
#include "tools/bench/call_shape.h"
#include "tools/bench/subject.h"
#include "tools/bench/test_data.h"

namespace rz {

enum class Placement : uint8_t { kOutOfPlace, kInPlace };

// A call to prepare. `shape` is ShapeOf(request).
struct CallRequest {
  ShapeRequest request;
  DType dtype = DType::kFloat32;
  std::optional<ReduceOp> op;
  Placement placement = Placement::kOutOfPlace;
  int64_t aggregate = 1;  // operations in the group, each on memory of its own
  int64_t unalign = 0;    // index of the first element
};

class CallMemory {
 public:
  // For calls of up to `max_bytes` a buffer in groups of up to `aggregate`, up to `unalign`
  // elements behind an aligned address.
  // The communicator, whose calls they are, outlives this.
  //   ResourceExhausted  as BenchBuffer::Allocate
  static absl::StatusOr<CallMemory> Create(Communicator* communicator, int64_t max_bytes,
                                           int64_t aggregate, int64_t unalign,
                                           Registration registration);

  // What is to run. Good until the next Prepare.
  const MeasuredCall& Prepare(const CallRequest& request);
  const CallShape& shape() const { return shape_; }

  // Other ranks reach it.
  bool is_shared() const { return send_.is_shared() && recv_.is_shared(); }

  // Of the prepared call. Fills the inputs, and what is to be written with something else.
  void FillInputs(uint64_t seed);

  // Elements of the outputs that are not what those inputs must give, of the inputs that have
  // changed (out of place), and one for bytes behind an output that were written.
  int64_t CountWrong(uint64_t seed) const;

  // Stores to every element of the inputs, as a program that makes new ones does.
  void RewriteInputs();

 private:
  CallMemory(BenchBuffer send, BenchBuffer recv) : send_(std::move(send)), recv_(std::move(recv)) {}

  size_t Bytes(int64_t elements) const;
  // From one operation of the group to the next.
  size_t Stride() const;
  // Where the memory that operation `i` writes begins: in place, its one buffer.
  std::byte* Written(int64_t i) const;
  size_t WrittenBytes() const;

  BenchBuffer send_;
  BenchBuffer recv_;
  CallRequest request_;
  CallShape shape_;
  TestData data_{DType::kFloat32, std::nullopt, 1};
  MeasuredCall call_;
  uint8_t rewritten_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_CALL_MEMORY_H_
