// The 8-bit floats of dtype.h as codes of simd_vector.h. For sources of simd_library() only.
//
// Bit arithmetic, the same at every level; only bytes are lengthened and shortened with
// instructions of the level's own. Beyond the largest number, e4m3 rounds to NaN and e5m2 to
// infinity (the non-saturating mode of OFP8; see convert.h). NaN keeps its sign; that of e5m2 also
// its upper payload, and becomes quiet.
#ifndef RINGZERO_RUNTIME_BASE_SIMD_FLOAT8_H_
#define RINGZERO_RUNTIME_BASE_SIMD_FLOAT8_H_

#include "runtime/base/simd_vector.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

using U8Quarter = VectorOf<uint8_t, kVectorBytes / 4>::type;  // as many lanes as U32

// From 8 to 16 and to 32 bits, and back; of 32 bits the upper three bytes are zero.
#if defined(__AVX512F__)
RZ_SIMD_INLINE U16Half LengthenTo16(U8Quarter x) {
  return (U16Half)_mm256_cvtepu8_epi16((__m128i)x);
}
RZ_SIMD_INLINE U32 LengthenTo32(U8Quarter x) {
  return (U32)_mm512_maskz_cvtepu8_epi32(0xffff, (__m128i)x);
}
RZ_SIMD_INLINE U8Quarter ShortenTo8(U32 x) {
  return (U8Quarter)_mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)x);
}
#elif defined(__AVX2__)
RZ_SIMD_INLINE __m128i InRegister(U8Quarter x) { return _mm_cvtsi64_si128((long long)x); }
RZ_SIMD_INLINE U16Half LengthenTo16(U8Quarter x) {
  return (U16Half)_mm_cvtepu8_epi16(InRegister(x));
}
RZ_SIMD_INLINE U32 LengthenTo32(U8Quarter x) { return (U32)_mm256_cvtepu8_epi32(InRegister(x)); }
RZ_SIMD_INLINE U8Quarter ShortenTo8(U32 x) {
  // Packs within the halves of a register: bytes 0-3 four times, then bytes 4-7 four times.
  const __m256i words = _mm256_packus_epi32((__m256i)x, (__m256i)x);
  const __m256i bytes = _mm256_packus_epi16(words, words);
  const __m128i joined =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  return (U8Quarter)_mm_cvtsi128_si64(joined);
}
#else
RZ_SIMD_INLINE U16Half LengthenTo16(U8Quarter x) { return __builtin_convertvector(x, U16Half); }
RZ_SIMD_INLINE U32 LengthenTo32(U8Quarter x) { return __builtin_convertvector(x, U32); }
RZ_SIMD_INLINE U8Quarter ShortenTo8(U32 x) { return __builtin_convertvector(x, U8Quarter); }
#endif

RZ_SIMD_INLINE F32 Float8E4M3ToFloat(U8Quarter codes) {
  const U32 wide = LengthenTo32(codes);
  const I32 magnitude = (I32)(wide & 0x7fu);
  const U32 normal = ((U32)magnitude << 20) + (120u << 23);  // the exponent's bias, 7, becomes 127
  const U32 subnormal = (U32)(__builtin_convertvector(magnitude, F32) * 0x1p-9f);
  U32 result = magnitude < 8 ? subnormal : normal;
  result = magnitude == 0x7f ? U32{} + 0x7fc00000u : result;
  return (F32)(result | ((wide & 0x80u) << 24));
}

RZ_SIMD_INLINE U8Quarter FloatToFloat8E4M3(F32 x) {
  const U32 bits = (U32)x;
  const U32 magnitude = bits & 0x7fffffffu;
  // Beyond 0x7e, which is 448, everything is NaN: what rounds up, infinity, NaN.
  const I32 rounded = (I32)((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120 << 3);
  const I32 normal = rounded < 0x7f ? rounded : I32{} + 0x7f;
  // The last place of 2^14 is 2^-9, that of a subnormal: the addition does the rounding.
  const I32 subnormal = (I32)((F32)magnitude + 0x1p14f) - 0x46800000;
  const I32 result = (I32)magnitude < 0x3c800000 ? subnormal : normal;
  return ShortenTo8((U32)result | ((bits >> 24) & 0x80u));
}

// e5m2 is the upper half of a float16.
RZ_SIMD_INLINE F32 Float8E5M2ToFloat(U8Quarter codes) {
  return Float16ToFloat(LengthenTo16(codes) << 8);
}

// Not through float16: that would round twice.
RZ_SIMD_INLINE U8Quarter FloatToFloat8E5M2(F32 x) {
  const U32 bits = (U32)x;
  const U32 magnitude = bits & 0x7fffffffu;
  const I32 rounded = (I32)((magnitude + 0xfffffu + ((magnitude >> 21) & 1u)) >> 21) - (112 << 2);
  const I32 normal = rounded < 0x7c ? rounded : I32{} + 0x7c;
  // The last place of 2^7 is 2^-16, that of a subnormal.
  const I32 subnormal = (I32)((F32)magnitude + 0x1p7f) - 0x43000000;
  const I32 nan = (I32)(((magnitude >> 21) & 3u) | 0x7eu);
  I32 result = (I32)magnitude < 0x38800000 ? subnormal : normal;
  result = (I32)magnitude > 0x7f800000 ? nan : result;
  return ShortenTo8((U32)result | ((bits >> 24) & 0x80u));
}

template <>
struct Code<DType::kFloat8E4M3> {
  using Vector = F32;
  static constexpr size_t kBytes = 1;
  static constexpr size_t kLanes = kVectorBytes / 4;
  RZ_SIMD_INLINE static F32 Load(const unsigned char* from) {
    return Float8E4M3ToFloat(LoadVector<U8Quarter>(from));
  }
  RZ_SIMD_INLINE static void Store(unsigned char* to, F32 x) {
    StoreVector(to, FloatToFloat8E4M3(x));
  }
};

template <>
struct Code<DType::kFloat8E5M2> {
  using Vector = F32;
  static constexpr size_t kBytes = 1;
  static constexpr size_t kLanes = kVectorBytes / 4;
  RZ_SIMD_INLINE static F32 Load(const unsigned char* from) {
    return Float8E5M2ToFloat(LoadVector<U8Quarter>(from));
  }
  RZ_SIMD_INLINE static void Store(unsigned char* to, F32 x) {
    StoreVector(to, FloatToFloat8E5M2(x));
  }
};

}  // namespace
}  // namespace rz::RZ_SIMD_NAMESPACE

#endif  // RINGZERO_RUNTIME_BASE_SIMD_FLOAT8_H_
