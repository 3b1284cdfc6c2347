#include "collectives/local_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rz {
namespace {

// Partial results that need not be stored pass through this much of the stack, so that they never
// leave the first-level cache.
constexpr size_t kPieceElements = 1024;

// dst (accumulator) <- a, multiplied where premul_sum says so.
void Widen(std::byte* dst, const std::byte* a, bool scaled, size_t count,
           const Arithmetic& arithmetic) {
  if (scaled) {
    arithmetic.kernel->widen_scaled(dst, a, count, arithmetic.premul);
  } else {
    arithmetic.kernel->widen(dst, a, count);
  }
}

// dst (accumulator) <- a (accumulator) + b (wire).
void Accumulate(std::byte* dst, const std::byte* a, const std::byte* b, bool scaled, size_t count,
                const Arithmetic& arithmetic) {
  if (scaled) {
    arithmetic.kernel->accumulate_scaled(dst, a, b, count, arithmetic.premul);
  } else {
    arithmetic.kernel->accumulate(dst, a, b, count);
  }
}

// dst <- op(a, b) / divisor, at most one rounding to wire:
//   1. One kernel where there is one for the formats at hand.
//   2. Else piece by piece: widen a if it is wire, accumulate b, finish if dst is wire.
// Of two wire operands an input is taken as b; addition commutes, bits included.
void Reduce(Operand dst, Operand a, Operand b, size_t count, double divisor,
            const Arithmetic& arithmetic) {
  if (a.is_input && !b.is_input) std::swap(a, b);
  const bool scale_a = a.is_input && arithmetic.scales();
  const bool scale_b = b.is_input && arithmetic.scales();
  const bool wide_a = a.format == Format::kAccumulator;
  const bool wide_dst = dst.format == Format::kAccumulator;
  if (!wide_a && !wide_dst && !scale_b && divisor == 1) {
    arithmetic.kernel->combine(dst.data, a.data, b.data, count);
    return;
  }
  if (!wide_a && !wide_dst && arithmetic.kernel->combine_mean != nullptr) {
    arithmetic.kernel->combine_mean(dst.data, a.data, b.data, count, divisor);
    return;
  }
  if (wide_a && wide_dst) {
    Accumulate(dst.data, a.data, b.data, scale_b, count, arithmetic);
    return;
  }
  const size_t wire = arithmetic.SizeOfFormat(Format::kWire);
  const size_t a_size = arithmetic.SizeOfFormat(a.format);
  const size_t dst_size = arithmetic.SizeOfFormat(dst.format);
  alignas(64) std::byte stack[kPieceElements * sizeof(double)];
  for (size_t at = 0; at < count; at += kPieceElements) {
    const size_t piece = std::min(kPieceElements, count - at);
    std::byte* const to = dst.data + at * dst_size;
    std::byte* const sum = wide_dst ? to : stack;
    const std::byte* addend = a.data + at * a_size;
    if (!wide_a) {
      Widen(sum, addend, scale_a, piece, arithmetic);
      addend = sum;
    }
    Accumulate(sum, addend, b.data + at * wire, scale_b, piece, arithmetic);
    if (!wide_dst) arithmetic.kernel->finish(to, sum, piece, divisor);
  }
}

void Copy(Operand dst, Operand a, size_t count, const Arithmetic& arithmetic) {
  if (dst.data != a.data) {
    std::memcpy(dst.data, a.data, count * arithmetic.SizeOfFormat(a.format));
  }
}

// dst (wire) <- a (wire), multiplied.
void FinishScaled(Operand dst, Operand a, size_t count, const Arithmetic& arithmetic) {
  const size_t wire = arithmetic.SizeOfFormat(Format::kWire);
  alignas(64) std::byte product[kPieceElements * sizeof(double)];
  for (size_t at = 0; at < count; at += kPieceElements) {
    const size_t piece = std::min(kPieceElements, count - at);
    Widen(product, a.data + at * wire, /*scaled=*/true, piece, arithmetic);
    arithmetic.kernel->finish(dst.data + at * wire, product, piece, arithmetic.divisor);
  }
}

// As Reduce and the others: a function's operands are in order, what was combined before being `a`.
bool RunFunction(LocalKind kind, Operand dst, Operand a, Operand b, size_t count,
                 const Arithmetic& arithmetic) {
  if (kind != LocalKind::kReduce && kind != LocalKind::kReduceFinish) {
    Copy(dst, a, count, arithmetic);
    return true;
  }
  if (a.is_input && !b.is_input) std::swap(a, b);
  return arithmetic.function->Combine(dst.data, a.data, b.data, static_cast<int64_t>(count),
                                      arithmetic.dtype);
}

void RunKernel(LocalKind kind, Operand dst, Operand a, Operand b, size_t count,
               const Arithmetic& arithmetic) {
  switch (kind) {
    case LocalKind::kCopy:
      Copy(dst, a, count, arithmetic);
      return;
    case LocalKind::kWiden:
      Widen(dst.data, a.data, arithmetic.scales(), count, arithmetic);
      return;
    case LocalKind::kReduce:
      Reduce(dst, a, b, count, 1, arithmetic);
      return;
    case LocalKind::kReduceFinish:
      Reduce(dst, a, b, count, arithmetic.divisor, arithmetic);
      return;
    case LocalKind::kFinish:
      if (arithmetic.scales()) {
        FinishScaled(dst, a, count, arithmetic);
      } else {
        Copy(dst, a, count, arithmetic);
      }
      return;
  }
}

}  // namespace

bool RunLocalStep(LocalKind kind, Operand dst, Operand a, Operand b, size_t count,
                  const Arithmetic& arithmetic) {
  if (arithmetic.function != nullptr) return RunFunction(kind, dst, a, b, count, arithmetic);
  RunKernel(kind, dst, a, b, count, arithmetic);
  return true;
}

}  // namespace rz
