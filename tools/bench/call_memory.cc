#include "tools/bench/call_memory.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// Behind every buffer, to see what is written beyond its end; also keeps groups off each other's
// cache lines.
constexpr size_t kGuard = 64;
constexpr std::byte kPoison{0xa5};

constexpr size_t kLargestElement = 8;

size_t RoundUp(size_t bytes) { return (bytes + kGuard - 1) / kGuard * kGuard; }

size_t StrideOf(size_t bytes, size_t unaligned_bytes) {
  return RoundUp(bytes + unaligned_bytes) + kGuard;
}

uint64_t SeedOf(uint64_t seed, int64_t operation) {
  return seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(operation);
}

}  // namespace

absl::StatusOr<CallMemory> CallMemory::Create(Communicator* communicator, int64_t max_bytes,
                                              int64_t aggregate, int64_t unalign,
                                              Registration registration) {
  const size_t bytes =
      static_cast<size_t>(aggregate) *
      StrideOf(static_cast<size_t>(max_bytes), static_cast<size_t>(unalign) * kLargestElement);
  RZ_ASSIGN_OR_RETURN(BenchBuffer send, BenchBuffer::Allocate(communicator, bytes, registration));
  RZ_ASSIGN_OR_RETURN(BenchBuffer recv, BenchBuffer::Allocate(communicator, bytes, registration));
  return CallMemory(std::move(send), std::move(recv));
}

size_t CallMemory::Bytes(int64_t elements) const {
  return static_cast<size_t>(elements) * SizeOf(request_.dtype);
}

size_t CallMemory::Stride() const {
  return StrideOf(static_cast<size_t>(shape_.size_bytes), Bytes(request_.unalign));
}

std::byte* CallMemory::Written(int64_t i) const {
  return recv_.data() + static_cast<size_t>(i) * Stride() + Bytes(request_.unalign);
}

size_t CallMemory::WrittenBytes() const {
  const bool in_place = request_.placement == Placement::kInPlace;
  return Bytes(in_place ? shape_.in_place_count : shape_.recv_count);
}

const MeasuredCall& CallMemory::Prepare(const CallRequest& request) {
  request_ = request;
  const ShapeRequest& of = request.request;
  shape_ = ShapeOf(of);
  data_ = TestData(request.dtype, request.op, of.world);
  const OperationTraits& traits = TraitsOf(of.operation);
  call_.operation = of.operation;
  call_.next = Rank((of.rank.value() + 1) % of.world);
  call_.previous = Rank((of.rank.value() + of.world - 1) % of.world);
  call_.calls.assign(request.aggregate, Call());
  for (int64_t i = 0; i < request.aggregate; ++i) {
    Call& call = call_.calls[i];
    std::byte* const written = Written(i);
    if (request.placement == Placement::kInPlace) {
      call.send = written + Bytes(shape_.in_place_send);
      call.recv = written + Bytes(shape_.in_place_recv);
    } else {
      call.send = send_.data() + static_cast<size_t>(i) * Stride() + Bytes(request.unalign);
      call.recv = written;
    }
    call.collective = traits.collective.value_or(Collective::kBarrier);
    call.count = shape_.count;
    call.dtype = request.dtype;
    call.op = request.op.value_or(ReduceOp::kSum);
    call.root = of.root;
    if (request.op == ReduceOp::kPremulSum) call.options.premul = data_.premul();
    call.has_counts = traits.is_v;
    call.counts = shape_.counts;
    call.recv_counts = shape_.recv_counts;
  }
  return call_;
}

void CallMemory::FillInputs(uint64_t seed) {
  for (int64_t i = 0; i < request_.aggregate; ++i) {
    std::memset(Written(i), static_cast<int>(kPoison), WrittenBytes() + kGuard);
    data_.Fill(SeedOf(seed, i), request_.request.rank.value(), shape_.send_index, shape_.send_count,
               const_cast<void*>(call_.calls[i].send));
  }
}

int64_t CallMemory::CountWrong(uint64_t seed) const {
  int64_t wrong = 0;
  for (int64_t i = 0; i < request_.aggregate; ++i) {
    const Call& call = call_.calls[i];
    for (const ExpectedPiece& piece : shape_.expected) {
      wrong += data_.CountWrong(SeedOf(seed, i), piece, call.recv);
    }
    const std::byte* const end = Written(i) + WrittenBytes();
    const bool intact =
        std::all_of(end, end + kGuard, [](std::byte byte) { return byte == kPoison; });
    wrong += intact ? 0 : 1;
    if (request_.placement == Placement::kOutOfPlace) {
      wrong += data_.CountWrong(SeedOf(seed, i),
                                {.count = shape_.send_count,
                                 .source = request_.request.rank.value(),
                                 .source_index = shape_.send_index},
                                call.send);
    }
  }
  return wrong;
}

void CallMemory::RewriteInputs() {
  // Small numbers of any dtype. Words, so that it is not turned into memset, which has stores of
  // its own kind for large sizes.
  const uint64_t word = ++rewritten_ & 1 ? 0x3c3c3c3c3c3c3c3cu : 0x3838383838383838u;
  for (const Call& call : call_.calls) {
    auto* const begin = static_cast<std::byte*>(const_cast<void*>(call.send));
    const size_t bytes = Bytes(shape_.send_count);
    for (size_t at = 0; at + sizeof(word) <= bytes; at += sizeof(word)) {
      std::memcpy(begin + at, &word, sizeof(word));
    }
  }
}

}  // namespace rz
