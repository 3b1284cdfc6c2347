// Conversions of 16-bit floats: of single elements, as bit patterns (the definition the vector
// kernels are tested against, and the form in which small code uses them), and of whole arrays.
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

// Arrays, at the level of ActiveSimdLevel(), with the same results as above. `to` and `from` are
// floating dtypes. dst may be the same memory as src where the elements have the same size, and
// also where they become narrower; no other overlap. Any alignment, any count.
void ConvertFromFloat(DType to, void* dst, const float* src, size_t count);
void ConvertToFloat(DType from, float* dst, const void* src, size_t count);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_KERNELS_CONVERT_H_
