// Reduction kernels, compiled once a level.
//
// 1. Load a vector of each operand, widened to the accumulator type A.
// 2. Apply the operation in A; a lane that is NaN becomes the canonical quiet NaN.
// 3. Store, rounded to the destination's type.
// 4. Four vectors a turn, then single vectors, then the remainder through a padded copy: which of
//    the three an element falls into does not show in its result.
#include "collectives/kernels/kernel_table.h"

#include "runtime/base/simd_float8.h"
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

template <typename Vector>
constexpr bool kFloating = false;
template <>
constexpr bool kFloating<F32> = true;
template <>
constexpr bool kFloating<F64> = true;

// The bits of a vector, lane by lane: on them integers wrap.
RZ_SIMD_INLINE U32 Bits(F32 x) { return (U32)x; }
RZ_SIMD_INLINE U64 Bits(F64 x) { return (U64)x; }
RZ_SIMD_INLINE U8 Bits(I8 x) { return (U8)x; }
RZ_SIMD_INLINE U8 Bits(U8 x) { return x; }
RZ_SIMD_INLINE U32 Bits(I32 x) { return (U32)x; }
RZ_SIMD_INLINE U32 Bits(U32 x) { return x; }
RZ_SIMD_INLINE U64 Bits(I64 x) { return (U64)x; }
RZ_SIMD_INLINE U64 Bits(U64 x) { return x; }

struct Sum {
  template <typename V>
  RZ_SIMD_INLINE static V Apply(V a, V b) {
    if constexpr (kFloating<V>) {
      return CanonicalNan(a + b);
    } else {
      return (V)(Bits(a) + Bits(b));
    }
  }
};

struct Product {
  template <typename V>
  RZ_SIMD_INLINE static V Apply(V a, V b) {
    if constexpr (kFloating<V>) {
      return CanonicalNan(a * b);
    } else {
      return (V)(Bits(a) * Bits(b));
    }
  }
};

// Where a == b the bits are equal or the two zeros: "or" takes the negative one, "and" the
// positive.
struct Min {
  template <typename V>
  RZ_SIMD_INLINE static V Apply(V a, V b) {
    if constexpr (kFloating<V>) {
      const V smaller = a == b ? (V)(Bits(a) | Bits(b)) : (a < b ? a : b);
      return a == a ? CanonicalNan(b == b ? smaller : b) : CanonicalNan(a);
    } else {
      return a < b ? a : b;
    }
  }
};

struct Max {
  template <typename V>
  RZ_SIMD_INLINE static V Apply(V a, V b) {
    if constexpr (kFloating<V>) {
      const V larger = a == b ? (V)(Bits(a) & Bits(b)) : (a > b ? a : b);
      return a == a ? CanonicalNan(b == b ? larger : b) : CanonicalNan(a);
    } else {
      return a > b ? a : b;
    }
  }
};

// The factor in every lane.
template <typename V>
RZ_SIMD_INLINE V Broadcast(PremulFactor factor) {
  V lanes;
  for (size_t i = 0; i < sizeof(V) / sizeof(lanes[0]); ++i) {
    if constexpr (kFloating<V>) {
      lanes[i] = factor.floating;
    } else {
      lanes[i] = factor.integer;
    }
  }
  return lanes;
}

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

  // Calls f(how to make a mean of a sum). The reciprocal of a power of two is exact, and so is what
  // it is multiplied with, or rounded as the quotient is.
  template <typename F>
  RZ_SIMD_INLINE static void WithMean(double divisor, F f) {
    using Scalar = decltype(Vector{}[0] + Vector{}[0]);
    constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;
    uint64_t bits;
    __builtin_memcpy(&bits, &divisor, sizeof(bits));
    if ((bits & kMantissa) == 0) {
      const Vector factors = Vector{} + static_cast<Scalar>(1 / divisor);
      f([factors](Vector x) { return CanonicalNan(x * factors); });
    } else {
      const Vector divisors = Vector{} + static_cast<Scalar>(divisor);
      f([divisors](Vector x) { return CanonicalNan(x / divisors); });
    }
  }

  static void FinishMean(void* dst, const void* src, size_t count, double divisor) {
    WithMean(divisor, [&](auto mean) { Map<Wire, Accumulator>(dst, src, count, mean); });
  }

  static void CombineMean(void* dst, const void* a, const void* b, size_t count, double divisor) {
    WithMean(divisor, [&](auto mean) {
      CombineWith(dst, a, b, count, [mean](Vector x, Vector y) { return mean(x + y); });
    });
  }

  static void WidenScaled(void* dst, const void* src, size_t count, PremulFactor factor) {
    const Vector factors = Broadcast<Vector>(factor);
    Map<Accumulator, Wire>(dst, src, count,
                           [factors](Vector x) { return Product::Apply(factors, x); });
  }

  // Two roundings, of the product and of the sum: a fused one would differ from the sum of what
  // WidenScaled leaves.
  static void AccumulateScaled(void* dst, const void* a, const void* b, size_t count,
                               PremulFactor factor) {
    const Vector factors = Broadcast<Vector>(factor);
    Map<Accumulator, Accumulator, Wire>(dst, a, b, count, [factors](Vector x, Vector y) {
      return Sum::Apply(x, Product::Apply(factors, y));
    });
  }

  template <typename Op>
  static void Combine(void* dst, const void* a, const void* b, size_t count) {
    CombineWith(dst, a, b, count, [](Vector x, Vector y) { return Op::Apply(x, y); });
  }

 private:
  template <typename F>
  RZ_SIMD_INLINE static void CombineWith(void* dst, const void* a, const void* b, size_t count,
                                         F function) {
    if constexpr (W == DType::kBFloat16) {
      using Pairs = BFloat16Pairs;
      Map<Pairs, Pairs, Pairs>(dst, a, b, count, [function](Pairs::Vector x, Pairs::Vector y) {
        return Pairs::Vector{function(x.even, y.even), function(x.odd, y.odd)};
      });
    } else {
      Map<Wire, Wire, Wire>(dst, a, b, count, function);
    }
  }
};

template <typename M, typename Op>
constexpr ReduceKernel kKernel = {
    &M::Widen, &M::template Accumulate<Op>, &M::Finish, &M::template Combine<Op>, nullptr, nullptr,
    nullptr};

template <typename M>
constexpr ReduceKernel kMeanKernel = {&M::Widen,      &M::template Accumulate<Sum>,
                                      &M::FinishMean, &M::template Combine<Sum>,
                                      nullptr,        nullptr,
                                      &M::CombineMean};

template <typename M>
constexpr ReduceKernel kPremulSumKernel = {
    &M::Widen,       &M::template Accumulate<Sum>, &M::Finish, &M::template Combine<Sum>,
    &M::WidenScaled, &M::AccumulateScaled,         nullptr};

// In the order of ReduceOp.
template <DType W, DType A = W>
constexpr KernelRow kFloats = {{kKernel<Moves<W, A>, Sum>, kKernel<Moves<W, A>, Min>,
                                kKernel<Moves<W, A>, Max>, kMeanKernel<Moves<W, A>>,
                                kKernel<Moves<W, A>, Product>, kPremulSumKernel<Moves<W, A>>}};

template <DType W>
constexpr KernelRow kIntegers = {{kKernel<Moves<W, W>, Sum>,
                                  kKernel<Moves<W, W>, Min>,
                                  kKernel<Moves<W, W>, Max>,
                                  {},
                                  kKernel<Moves<W, W>, Product>,
                                  kPremulSumKernel<Moves<W, W>>}};

}  // namespace

// In the order of DType.
constinit const KernelTable kKernelTable = {
    kFloats<DType::kFloat32>,
    kFloats<DType::kFloat64>,
    kFloats<DType::kBFloat16, DType::kFloat32>,
    kFloats<DType::kFloat16, DType::kFloat32>,
    kIntegers<DType::kInt32>,
    kIntegers<DType::kInt64>,
    kIntegers<DType::kInt8>,
    kIntegers<DType::kUint8>,
    kIntegers<DType::kUint32>,
    kIntegers<DType::kUint64>,
    kFloats<DType::kFloat8E4M3, DType::kFloat32>,
    kFloats<DType::kFloat8E5M2, DType::kFloat32>,
};

}  // namespace rz::RZ_SIMD_NAMESPACE
