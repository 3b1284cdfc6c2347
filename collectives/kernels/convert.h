// Conversions of 16- and 8-bit floats: of single elements, as bit patterns (the definition the
// vector kernels are tested against, and the form in which small code uses them), and of whole
// arrays.
#ifndef RINGZERO_COLLECTIVES_KERNELS_CONVERT_H_
#define RINGZERO_COLLECTIVES_KERNELS_CONVERT_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"

namespace rz {

// bfloat16 is the upper half of a float32.
constexpr float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Nearest, ties to even; NaN becomes quiet and keeps its sign and upper payload.
constexpr uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// IEEE 754 binary16; subnormals are kept. NaN becomes quiet and keeps its sign and upper payload,
// both ways.
float Float16ToFloat(uint16_t bits);
uint16_t FloatToFloat16(float value);

// OFP8 e4m3 and e5m2, nearest, ties to even; subnormals are kept. NaN keeps its sign; that of e5m2
// becomes quiet and keeps its upper payload, both ways. What rounds beyond the largest number (448;
// 57344) and infinity become NaN in e4m3, which has no infinity, and infinity in e5m2: the
// non-saturating mode of OFP8 section 5.2.1, which is also what ml_dtypes and PyTorch do. To
// saturate would hide an overflow from the test for finite values that loss scaling relies on.
float Float8E4M3ToFloat(uint8_t bits);
uint8_t FloatToFloat8E4M3(float value);
float Float8E5M2ToFloat(uint8_t bits);
uint8_t FloatToFloat8E5M2(float value);

// Arrays, at the level of ActiveSimdLevel(), with the same results as above. `to` and `from` are
// floating dtypes. dst may be the same memory as src where the elements have the same size, and
// also where they become narrower; no other overlap. Any alignment, any count.
void ConvertFromFloat(DType to, void* dst, const float* src, size_t count);
void ConvertToFloat(DType from, float* dst, const void* src, size_t count);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_KERNELS_CONVERT_H_
