// The kernels of reduce_kernel.h element by element on whole arrays, and the arrays to try them on.
#ifndef RINGZERO_COLLECTIVES_KERNELS_REFERENCE_KERNEL_H_
#define RINGZERO_COLLECTIVES_KERNELS_REFERENCE_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/kernels/reduce_kernel.h"
#include "runtime/base/dtype.h"

namespace rz::testing {

using Buffer = std::vector<unsigned char>;

// Each returns what the kernel of that name must write. `wire` arrays are of `dtype`, `partial`
// arrays of its accumulator.
Buffer ExpectedWiden(DType dtype, const Buffer& wire);
Buffer ExpectedAccumulate(DType dtype, ReduceOp op, const Buffer& partial, const Buffer& wire);
Buffer ExpectedFinish(DType dtype, ReduceOp op, const Buffer& partial, double divisor);
Buffer ExpectedCombine(DType dtype, ReduceOp op, const Buffer& a, const Buffer& b);
Buffer ExpectedWidenScaled(DType dtype, const Buffer& wire, PremulFactor factor);
Buffer ExpectedAccumulateScaled(DType dtype, const Buffer& partial, const Buffer& wire,
                                PremulFactor factor);

// Elements that go wrong first, random bit patterns, and values of moderate size, mixed.
Buffer RandomElements(DType dtype, size_t count, uint64_t seed);

// Every pair of the elements that go wrong first (of 8-bit types: every pair), as two arrays.
std::pair<Buffer, Buffer> AllSpecialPairs(DType dtype);

// Lengths around every vector width and unrolling, and two long ones.
std::vector<size_t> ElementCounts();

// An array `offset` bytes off any alignment, with a guard on both sides that shows stores beyond
// it.
class Guarded {
 public:
  Guarded(size_t size, size_t offset);
  Guarded(const Buffer& data, size_t offset);

  unsigned char* data() { return bytes_.data() + offset_; }
  size_t size() const { return bytes_.size() - offset_ - kGuard; }
  Buffer content() { return Buffer(data(), data() + size()); }
  bool intact() const;

 private:
  static constexpr size_t kGuard = 96;
  static constexpr unsigned char kFill = 0xa5;
  Buffer bytes_;
  size_t offset_;
};

// "avx2_bfloat16_sum": a test's name.
std::string KernelName(SimdLevel level, DType dtype, ReduceOp op);

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_KERNELS_REFERENCE_KERNEL_H_
