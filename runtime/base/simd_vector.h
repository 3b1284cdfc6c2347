// Vectors of the level a file is compiled for, and how elements of each dtype are loaded into them
// and stored: what the kernels of all levels are written in. For sources of simd_library() only.
//
// Everything is inside RZ_SIMD_NAMESPACE and a nameless namespace, and nothing of the standard
// library is called: no code for AVX-512 can reach a program's portable part (see
// simd_library.bzl). Compiler vectors (GCC, Clang) carry arithmetic that is the same at every
// level; F16C is the only place with instructions of its own.
//
// Code<D>::Load reads kLanes elements of dtype D as a vector of its accumulator type, Store rounds
// them back to nearest, ties to even. NaN stays NaN: it becomes quiet where the width changes from
// or to float16 or to bfloat16, and keeps its sign and upper payload.
#ifndef RINGZERO_RUNTIME_BASE_SIMD_VECTOR_H_
#define RINGZERO_RUNTIME_BASE_SIMD_VECTOR_H_

#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define RZ_SIMD_INLINE [[gnu::always_inline]] inline

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

#if defined(__AVX512F__)
inline constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr size_t kVectorBytes = 32;
#else
inline constexpr size_t kVectorBytes = 16;
#endif

template <typename T, size_t bytes = kVectorBytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes)));
};

using F32 = VectorOf<float>::type;
using F64 = VectorOf<double>::type;
using I8 = VectorOf<int8_t>::type;
using U8 = VectorOf<uint8_t>::type;
using I32 = VectorOf<int32_t>::type;
using I64 = VectorOf<int64_t>::type;
using U32 = VectorOf<uint32_t>::type;
using U64 = VectorOf<uint64_t>::type;
using U16Half = VectorOf<uint16_t, kVectorBytes / 2>::type;  // as many lanes as U32
using F32Half = VectorOf<float, kVectorBytes / 2>::type;     // as many lanes as F64

template <typename Vector>
RZ_SIMD_INLINE Vector LoadVector(const unsigned char* from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof(vector));
  return vector;
}

template <typename Vector>
RZ_SIMD_INLINE void StoreVector(unsigned char* to, Vector vector) {
  __builtin_memcpy(to, &vector, sizeof(vector));
}

// The positive quiet NaN without payload where a lane is NaN. Which payload an addition of two NaNs
// keeps depends on the order of its operands, which compilers choose: this makes results equal.
RZ_SIMD_INLINE F32 CanonicalNan(F32 x) { return x == x ? x : F32{} + __builtin_nanf(""); }
RZ_SIMD_INLINE F64 CanonicalNan(F64 x) { return x == x ? x : F64{} + __builtin_nan(""); }

// Exactly. (GCC 12 converts a vector of 512 bits in two halves, and puts them together.)
#if defined(__AVX512F__)
RZ_SIMD_INLINE F64 ToDouble(F32Half x) { return (F64)_mm512_maskz_cvtps_pd(0xff, (__m256)x); }
#else
RZ_SIMD_INLINE F64 ToDouble(F32Half x) { return __builtin_convertvector(x, F64); }
#endif

// The lower and the upper half of the lanes, exactly.
RZ_SIMD_INLINE F64 LowerToDouble(F32 x) {
#if defined(__AVX512F__)
  const F32Half half = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
#elif defined(__AVX2__)
  const F32Half half = __builtin_shufflevector(x, x, 0, 1, 2, 3);
#else
  const F32Half half = __builtin_shufflevector(x, x, 0, 1);
#endif
  return ToDouble(half);
}

RZ_SIMD_INLINE F64 UpperToDouble(F32 x) {
#if defined(__AVX512F__)
  const F32Half half = __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(__AVX2__)
  const F32Half half = __builtin_shufflevector(x, x, 4, 5, 6, 7);
#else
  const F32Half half = __builtin_shufflevector(x, x, 2, 3);
#endif
  return ToDouble(half);
}

// Between 16 and 32 bits; of 32 bits the upper half is zero.
#if defined(__AVX512F__)
RZ_SIMD_INLINE U32 Lengthen(U16Half x) {
  return (U32)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)x);
}
RZ_SIMD_INLINE U16Half Shorten(U32 x) {
  return (U16Half)_mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)x);
}
#elif defined(__AVX2__)
RZ_SIMD_INLINE U32 Lengthen(U16Half x) { return (U32)_mm256_cvtepu16_epi32((__m128i)x); }
RZ_SIMD_INLINE U16Half Shorten(U32 x) {
  // Packs within the halves of a register: words 0-3 0-3 4-7 4-7, of which parts 0 and 2 are taken.
  const __m256i packed = _mm256_packus_epi32((__m256i)x, (__m256i)x);
  return (U16Half)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
#else
RZ_SIMD_INLINE U32 Lengthen(U16Half x) { return __builtin_convertvector(x, U32); }
RZ_SIMD_INLINE U16Half Shorten(U32 x) { return __builtin_convertvector(x, U16Half); }
#endif

RZ_SIMD_INLINE F32 BFloat16ToFloat(U16Half codes) { return (F32)(Lengthen(codes) << 16); }

// Rounds the upper half of each lane up or down; the lower half is left over. Not for NaN with a
// payload.
RZ_SIMD_INLINE U32 RoundToUpperHalf(F32 x) {
  const U32 bits = (U32)x;
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}

RZ_SIMD_INLINE U16Half FloatToBFloat16(F32 x) {
  return Shorten((x == x ? RoundToUpperHalf(x) : ((U32)x | 0x400000u)) >> 16);
}

#if defined(__AVX512F__)
RZ_SIMD_INLINE F32 Float16ToFloat(U16Half codes) {
  return (F32)_mm512_maskz_cvtph_ps(0xffff, (__m256i)codes);
}
RZ_SIMD_INLINE U16Half FloatToFloat16(F32 x) {
  return (U16Half)_mm512_maskz_cvtps_ph(0xffff, (__m512)x,
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__F16C__)
RZ_SIMD_INLINE F32 Float16ToFloat(U16Half codes) { return (F32)_mm256_cvtph_ps((__m128i)codes); }
RZ_SIMD_INLINE U16Half FloatToFloat16(F32 x) {
  return (U16Half)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
RZ_SIMD_INLINE F32 Float16ToFloat(U16Half codes) {
  const U32 wide = Lengthen(codes);
  const I32 magnitude = (I32)(wide & 0x7fffu);
  // Rebias the exponent from 15 to 127; infinity and NaN from 31 to 255.
  const U32 rebias = magnitude >= 0x7c00 ? U32{} + (224u << 23) : U32{} + (112u << 23);
  const U32 quiet = magnitude > 0x7c00 ? U32{} + 0x400000u : U32{};
  const U32 normal = (((U32)magnitude << 13) + rebias) | quiet;
  const U32 subnormal = (U32)(__builtin_convertvector(magnitude, F32) * 0x1p-24f);
  return (F32)((magnitude < 0x400 ? subnormal : normal) | ((wide & 0x8000u) << 16));
}

RZ_SIMD_INLINE U16Half FloatToFloat16(F32 x) {
  const U32 bits = (U32)x;
  const U32 magnitude = bits & 0x7fffffffu;
  const I32 order = (I32)magnitude;
  const U32 normal = ((magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
  // The last place of 0.5f is 2^-24, that of a subnormal float16: the addition does the rounding.
  const U32 subnormal = (U32)((F32)magnitude + 0.5f) - 0x3f000000u;
  const U32 nan = ((magnitude >> 13) & 0x3ffu) | 0x7e00u;
  U32 result = order < 0x38800000 ? subnormal : normal;
  result = order >= 0x47800000 ? U32{} + 0x7c00u : result;
  result = order > 0x7f800000 ? nan : result;
  return Shorten(result | ((bits >> 16) & 0x8000u));
}
#endif

// Elements that are kept in vectors as they are in memory.
template <typename V, size_t element_bytes>
struct PlainCode {
  using Vector = V;
  static constexpr size_t kBytes = element_bytes;
  static constexpr size_t kLanes = kVectorBytes / element_bytes;
  RZ_SIMD_INLINE static Vector Load(const unsigned char* from) { return LoadVector<Vector>(from); }
  RZ_SIMD_INLINE static void Store(unsigned char* to, Vector x) { StoreVector(to, x); }
};

template <DType dtype>
struct Code;

template <>
struct Code<DType::kFloat32> : PlainCode<F32, 4> {};
template <>
struct Code<DType::kFloat64> : PlainCode<F64, 8> {};
template <>
struct Code<DType::kInt32> : PlainCode<I32, 4> {};
template <>
struct Code<DType::kInt64> : PlainCode<I64, 8> {};
template <>
struct Code<DType::kInt8> : PlainCode<I8, 1> {};
template <>
struct Code<DType::kUint8> : PlainCode<U8, 1> {};
template <>
struct Code<DType::kUint32> : PlainCode<U32, 4> {};
template <>
struct Code<DType::kUint64> : PlainCode<U64, 8> {};

template <>
struct Code<DType::kBFloat16> {
  using Vector = F32;
  static constexpr size_t kBytes = 2;
  static constexpr size_t kLanes = kVectorBytes / 4;
  RZ_SIMD_INLINE static F32 Load(const unsigned char* from) {
    return BFloat16ToFloat(LoadVector<U16Half>(from));
  }
  RZ_SIMD_INLINE static void Store(unsigned char* to, F32 x) {
    StoreVector(to, FloatToBFloat16(x));
  }
};

template <>
struct Code<DType::kFloat16> {
  using Vector = F32;
  static constexpr size_t kBytes = 2;
  static constexpr size_t kLanes = kVectorBytes / 4;
  RZ_SIMD_INLINE static F32 Load(const unsigned char* from) {
    return Float16ToFloat(LoadVector<U16Half>(from));
  }
  RZ_SIMD_INLINE static void Store(unsigned char* to, F32 x) { StoreVector(to, FloatToFloat16(x)); }
};

// The first `count` < kLanes elements; the other lanes are zero.
template <typename C>
RZ_SIMD_INLINE typename C::Vector LoadSome(const unsigned char* from, size_t count) {
  alignas(kVectorBytes) unsigned char padded[C::kLanes * C::kBytes] = {};
  __builtin_memcpy(padded, from, count * C::kBytes);
  return C::Load(padded);
}

// Writes the first `count` < kLanes elements.
template <typename C>
RZ_SIMD_INLINE void StoreSome(unsigned char* to, typename C::Vector x, size_t count) {
  alignas(kVectorBytes) unsigned char padded[C::kLanes * C::kBytes];
  C::Store(padded, x);
  __builtin_memcpy(to, padded, count * C::kBytes);
}

}  // namespace
}  // namespace rz::RZ_SIMD_NAMESPACE

#endif  // RINGZERO_RUNTIME_BASE_SIMD_VECTOR_H_
