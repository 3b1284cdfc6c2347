#include "tools/bench/limit_subject.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "collectives/kernels/reduce_kernel.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// Summed at a time: stays in the first cache between its loads and its last store.
constexpr size_t kSliceBytes = size_t{16} << 10;

void Copy(const Call& call, size_t bytes) { std::memcpy(call.recv, call.send, bytes); }

// Sums `pieces` pieces of `elements` that stand one behind the other, and stores `copies` sums.
absl::Status Reduce(const Call& call, size_t elements, size_t pieces, size_t copies) {
  RZ_ASSIGN_OR_RETURN(const ReduceKernel* const kernel, GetReduceKernel(call.dtype, call.op));
  const size_t size = SizeOf(call.dtype);
  const size_t slice = kSliceBytes / size;
  const auto* const send = static_cast<const std::byte*>(call.send);
  auto* const recv = static_cast<std::byte*>(call.recv);
  for (size_t at = 0; at < elements; at += slice) {
    const size_t count = std::min(slice, elements - at);
    std::byte* const sum = recv + at * size;
    const auto piece = [&](size_t i) { return send + (i * elements + at) * size; };
    kernel->combine(sum, piece(0), piece(1), count);
    for (size_t i = 2; i < pieces; ++i) kernel->combine(sum, sum, piece(i), count);
    for (size_t i = 1; i < copies; ++i) {
      std::memcpy(recv + (i * elements + at) * size, sum, count * size);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LimitSubject::Run(const MeasuredCall& call) {
  for (const Call& one : call.calls) RZ_RETURN_IF_ERROR(Move(call.operation, one));
  return absl::OkStatus();
}

absl::Status LimitSubject::Move(BenchOperation operation, const Call& call) const {
  const auto count = static_cast<size_t>(call.count);
  const auto world = static_cast<size_t>(world_);
  const size_t size = SizeOf(call.dtype);
  switch (operation) {
    case BenchOperation::kAllReduce:
    case BenchOperation::kReduceScatter:
    case BenchOperation::kReduceScatterV:
    case BenchOperation::kReduce: {
      const size_t copies = operation == BenchOperation::kAllReduce ? world : 1;
      if (world > 1) return Reduce(call, count / world, world, copies);
      Copy(call, count * size);
      break;
    }
    case BenchOperation::kAllGather:
    case BenchOperation::kAllGatherV:
    case BenchOperation::kAllToAllV:
    case BenchOperation::kSendRecv:
      Copy(call, count * size);
      break;
    case BenchOperation::kAllToAll:
      Copy(call, count * world * size);
      break;
    case BenchOperation::kBroadcast:
      if (call.root.value() != rank_) Copy(call, count * size);
      break;
    case BenchOperation::kGather:
    case BenchOperation::kScatter:
      Copy(call, count / world * size);
      break;
    case BenchOperation::kBarrier:
      break;
  }
  return absl::OkStatus();
}

}  // namespace rz
