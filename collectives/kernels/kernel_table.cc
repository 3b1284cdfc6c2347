// Reduction kernels, compiled once a level.
//
// 1. Load a vector of each operand, widened to the accumulator type A.
// 2. Apply the operation in A; a lane that is NaN becomes the canonical quiet NaN.
// 3. Store, rounded to the destination's type.
// 4. Four vectors a turn, then single vectors, then the remainder through a padded copy: an
// element's
//    result does not depend on which of the three it falls into.
#include "collectives/kernels/kernel_table.h"

#include "runtime/base/simd_vector.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

constexpr size_t kUnroll = 4;

unsigned char* Bytes(void* p) { return static_cast<unsigned char*>(p); }
const unsigned char* Bytes(const void* p) { return static_cast<const unsigned char*>(p); }

// dst[i] = function(a[i], b[i]).
template <typename To, typename A, typename B, typename Function>
RZ_SIMD_INLINE void Map(void* dst, const void* a, const void* b, size_t count, Function function) {
  constexpr size_t kLanes = To::kLanes;
  static_assert(kLanes == A::kLanes && kLanes == B::kLanes);
  unsigned char* to = Bytes(dst);
  const unsigned char* from_a = Bytes(a);
  const unsigned char* from_b = Bytes(b);
  for (; count >= kUnroll * kLanes; count -= kUnroll * kLanes) {
    typename To::Vector result[kUnroll];
    for (size_t u = 0; u < kUnroll; ++u) {
      result[u] = function(A::Load(from_a + u * kLanes * A::kBytes),
                           B::Load(from_b + u * kLanes * B::kBytes));
    }
    for (size_t u = 0; u < kUnroll; ++u) To::Store(to + u * kLanes * To::kBytes, result[u]);
    to += kUnroll * kLanes * To::kBytes;
    from_a += kUnroll * kLanes * A::kBytes;
    from_b += kUnroll * kLanes * B::kBytes;
  }
  for (; count >= kLanes; count -= kLanes) {
    To::Store(to, function(A::Load(from_a), B::Load(from_b)));
    to += kLanes * To::kBytes;
    from_a += kLanes * A::kBytes;
    from_b += kLanes * B::kBytes;
  }
  if (count > 0) {
    StoreSome<To>(to, function(LoadSome<A>(from_a, count), LoadSome<B>(from_b, count)), count);
  }
}

// dst[i] = function(src[i]).
template <typename To, typename From, typename Function>
RZ_SIMD_INLINE void Map(void* dst, const void* src, size_t count, Function function) {
  constexpr size_t kLanes = To::kLanes;
  static_assert(kLanes == From::kLanes);
  unsigned char* to = Bytes(dst);
  const unsigned char* from = Bytes(src);
  for (; count >= kLanes; count -= kLanes) {
    To::Store(to, function(From::Load(from)));
    to += kLanes * To::kBytes;
    from += kLanes * From::kBytes;
  }
  if (count > 0) StoreSome<To>(to, function(LoadSome<From>(from, count)), count);
}

// Operations on vectors of the accumulator type.

struct Sum {
  RZ_SIMD_INLINE static F32 Apply(F32 a, F32 b) { return CanonicalNan(a + b); }
  RZ_SIMD_INLINE static F64 Apply(F64 a, F64 b) { return CanonicalNan(a + b); }
  // Unsigned, so that wrapping is defined.
  RZ_SIMD_INLINE static I32 Apply(I32 a, I32 b) { return (I32)((U32)a + (U32)b); }
  RZ_SIMD_INLINE static I64 Apply(I64 a, I64 b) { return (I64)((U64)a + (U64)b); }
};

// Where a == b the bits are equal or the two zeros: "or" takes the negative one, "and" the
// positive.
struct Min {
  RZ_SIMD_INLINE static F32 Apply(F32 a, F32 b) {
    const F32 smaller = a == b ? (F32)((U32)a | (U32)b) : (a < b ? a : b);
    return a == a ? CanonicalNan(b == b ? smaller : b) : CanonicalNan(a);
  }
  RZ_SIMD_INLINE static F64 Apply(F64 a, F64 b) {
    const F64 smaller = a == b ? (F64)((U64)a | (U64)b) : (a < b ? a : b);
    return a == a ? CanonicalNan(b == b ? smaller : b) : CanonicalNan(a);
  }
  RZ_SIMD_INLINE static I32 Apply(I32 a, I32 b) { return a < b ? a : b; }
  RZ_SIMD_INLINE static I64 Apply(I64 a, I64 b) { return a < b ? a : b; }
};

struct Max {
  RZ_SIMD_INLINE static F32 Apply(F32 a, F32 b) {
    const F32 larger = a == b ? (F32)((U32)a & (U32)b) : (a > b ? a : b);
    return a == a ? CanonicalNan(b == b ? larger : b) : CanonicalNan(a);
  }
  RZ_SIMD_INLINE static F64 Apply(F64 a, F64 b) {
    const F64 larger = a == b ? (F64)((U64)a & (U64)b) : (a > b ? a : b);
    return a == a ? CanonicalNan(b == b ? larger : b) : CanonicalNan(a);
  }
  RZ_SIMD_INLINE static I32 Apply(I32 a, I32 b) { return a > b ? a : b; }
  RZ_SIMD_INLINE static I64 Apply(I64 a, I64 b) { return a > b ? a : b; }
};

// bfloat16 as it lies in 32-bit words, the elements at even places apart from those at odd ones:
// for operations from bfloat16 to bfloat16 no element has to change its lane.
struct BFloat16Pairs {
  struct Vector {
    F32 even, odd;
  };
  static constexpr size_t kBytes = 2;
  static constexpr size_t kLanes = kVectorBytes / 2;
  static constexpr uint32_t kOddMask = 0xffff0000u;  // little-endian

  RZ_SIMD_INLINE static Vector Load(const unsigned char* from) {
    const U32 words = LoadVector<U32>(from);
    return {(F32)(words << 16), (F32)(words & kOddMask)};
  }
  // NaN is canonical, as it is after every operation.
  RZ_SIMD_INLINE static void Store(unsigned char* to, Vector x) {
    StoreVector(to, (RoundToUpperHalf(x.even) >> 16) | (RoundToUpperHalf(x.odd) & kOddMask));
  }
};

// The four moves for wire type W with accumulator A.
template <DType W, DType A>
struct Moves {
  using Wire = Code<W>;
  using Accumulator = Code<A>;
  using Vector = typename Accumulator::Vector;

  static void Widen(void* dst, const void* src, size_t count) {
    if constexpr (W == A) {
      if (dst != src && count > 0) __builtin_memcpy(dst, src, count * Wire::kBytes);
    } else {
      Map<Accumulator, Wire>(dst, src, count, [](Vector x) { return x; });
    }
  }

  template <typename Op>
  static void Accumulate(void* dst, const void* a, const void* b, size_t count) {
    Map<Accumulator, Accumulator, Wire>(dst, a, b, count,
                                        [](Vector x, Vector y) { return Op::Apply(x, y); });
  }

  static void Finish(void* dst, const void* src, size_t count, double divisor) {
    if constexpr (W == A) {
      if (dst != src && count > 0) __builtin_memcpy(dst, src, count * Wire::kBytes);
    } else {
      Map<Wire, Accumulator>(dst, src, count, [](Vector x) { return x; });
    }
  }

  static void FinishMean(void* dst, const void* src, size_t count, double divisor) {
    const Vector divisors = Vector{} + static_cast<decltype(Vector{}[0] + Vector{}[0])>(divisor);
    Map<Wire, Accumulator>(dst, src, count,
                           [divisors](Vector x) { return CanonicalNan(x / divisors); });
  }

  template <typename Op>
  static void Combine(void* dst, const void* a, const void* b, size_t count) {
    if constexpr (W == DType::kBFloat16) {
      using Pairs = BFloat16Pairs;
      Map<Pairs, Pairs, Pairs>(dst, a, b, count, [](Pairs::Vector x, Pairs::Vector y) {
        return Pairs::Vector{Op::Apply(x.even, y.even), Op::Apply(x.odd, y.odd)};
      });
    } else {
      Map<Wire, Wire, Wire>(dst, a, b, count, [](Vector x, Vector y) { return Op::Apply(x, y); });
    }
  }
};

template <typename M, typename Op>
constexpr ReduceKernel kKernel = {&M::Widen, &M::template Accumulate<Op>, &M::Finish,
                                  &M::template Combine<Op>};

template <typename M>
constexpr ReduceKernel kMeanKernel = {&M::Widen, &M::template Accumulate<Sum>, &M::FinishMean,
                                      &M::template Combine<Sum>};

using Float32 = Moves<DType::kFloat32, DType::kFloat32>;
using Float64 = Moves<DType::kFloat64, DType::kFloat64>;
using BFloat16 = Moves<DType::kBFloat16, DType::kFloat32>;
using Float16 = Moves<DType::kFloat16, DType::kFloat32>;
using Int32 = Moves<DType::kInt32, DType::kInt32>;
using Int64 = Moves<DType::kInt64, DType::kInt64>;

}  // namespace

constinit const KernelTable kKernelTable = {
    {kKernel<Float32, Sum>, kKernel<Float32, Min>, kKernel<Float32, Max>, kMeanKernel<Float32>},
    {kKernel<Float64, Sum>, kKernel<Float64, Min>, kKernel<Float64, Max>, kMeanKernel<Float64>},
    {kKernel<BFloat16, Sum>, kKernel<BFloat16, Min>, kKernel<BFloat16, Max>, kMeanKernel<BFloat16>},
    {kKernel<Float16, Sum>, kKernel<Float16, Min>, kKernel<Float16, Max>, kMeanKernel<Float16>},
    {kKernel<Int32, Sum>, kKernel<Int32, Min>, kKernel<Int32, Max>, {}},
    {kKernel<Int64, Sum>, kKernel<Int64, Min>, kKernel<Int64, Max>, {}},
};

}  // namespace rz::RZ_SIMD_NAMESPACE
