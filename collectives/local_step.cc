#include "collectives/local_step.h"

#include <algorithm>
#include <cstring>

namespace rz {
namespace {

// Sums that leave the accumulator at once pass through this much of the stack, so that the
// intermediate never leaves the first-level cache.
constexpr size_t kPieceElements = 1024;

// dst (accumulator, wider than wire) <- a + b.
void ReduceWide(Operand dst, Operand a, Operand b, size_t count, const Arithmetic& arithmetic) {
  const ReduceKernel& kernel = *arithmetic.kernel;
  if (a.format == Format::kAccumulator) {
    kernel.accumulate(dst.data, a.data, b.data, count);
    return;
  }
  const size_t wire = arithmetic.SizeOfFormat(Format::kWire);
  const size_t wide = arithmetic.SizeOfFormat(Format::kAccumulator);
  for (size_t at = 0; at < count; at += kPieceElements) {
    const size_t piece = std::min(kPieceElements, count - at);
    std::byte* const sum = dst.data + at * wide;
    kernel.widen(sum, a.data + at * wire, piece);
    kernel.accumulate(sum, sum, b.data + at * wire, piece);
  }
}

// dst (wire) <- (a + b) / divisor, one rounding.
void ReduceAndFinish(Operand dst, Operand a, Operand b, size_t count,
                     const Arithmetic& arithmetic) {
  const ReduceKernel& kernel = *arithmetic.kernel;
  const bool divides = arithmetic.divisor != 1;
  if (a.format == Format::kWire && !divides) {
    kernel.combine(dst.data, a.data, b.data, count);
    return;
  }
  const size_t wire = arithmetic.SizeOfFormat(Format::kWire);
  const size_t a_size = arithmetic.SizeOfFormat(a.format);
  alignas(64) std::byte sum[kPieceElements * sizeof(double)];
  for (size_t at = 0; at < count; at += kPieceElements) {
    const size_t piece = std::min(kPieceElements, count - at);
    const std::byte* addend = a.data + at * a_size;
    if (a.format == Format::kWire) {
      kernel.widen(sum, addend, piece);
      addend = sum;
    }
    kernel.accumulate(sum, addend, b.data + at * wire, piece);
    kernel.finish(dst.data + at * wire, sum, piece, arithmetic.divisor);
  }
}

}  // namespace

void RunLocalStep(LocalKind kind, Operand dst, Operand a, Operand b, size_t count,
                  const Arithmetic& arithmetic) {
  switch (kind) {
    case LocalKind::kCopy:
      if (dst.data != a.data) {
        std::memcpy(dst.data, a.data, count * arithmetic.SizeOfFormat(a.format));
      }
      return;
    case LocalKind::kWiden:
      arithmetic.kernel->widen(dst.data, a.data, count);
      return;
    case LocalKind::kReduce:
      if (dst.format == Format::kAccumulator) {
        ReduceWide(dst, a, b, count, arithmetic);
      } else {
        arithmetic.kernel->combine(dst.data, a.data, b.data, count);
      }
      return;
    case LocalKind::kReduceFinish:
      ReduceAndFinish(dst, a, b, count, arithmetic);
      return;
  }
}

}  // namespace rz
