#include "collectives/kernels/convert.h"

#include <cassert>
#include <cstring>

#include "collectives/kernels/reduce_kernel.h"

namespace rz {
namespace {

// Elements are copied one by one because float64 arrays may have any alignment.
void NarrowFloat64(float* dst, const void* src, size_t count) {
  const char* from = static_cast<const char*>(src);
  for (size_t i = 0; i < count; ++i) {
    double value;
    std::memcpy(&value, from + i * sizeof(value), sizeof(value));
    const float narrow = static_cast<float>(value);
    std::memcpy(reinterpret_cast<char*>(dst) + i * sizeof(narrow), &narrow, sizeof(narrow));
  }
}

void WidenToFloat64(void* dst, const float* src, size_t count) {
  char* to = static_cast<char*>(dst);
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, reinterpret_cast<const char*>(src) + i * sizeof(value), sizeof(value));
    const double wide = value;
    std::memcpy(to + i * sizeof(wide), &wide, sizeof(wide));
  }
}

// Widening and rounding are what a sum does before its first and after its last operand.
const ReduceKernel& SumKernel(DType dtype) { return **GetReduceKernel(dtype, ReduceOp::kSum); }

}  // namespace

float Float16ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u) {
    return std::bit_cast<float>(sign | (magnitude << 13) | 0x7fc00000u);
  }
  if (magnitude == 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u);
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

uint16_t FloatToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = ((magnitude >> 13) & 0x3ffu) | 0x7e00u;
  } else if (magnitude >= 0x47800000u) {  // 2^16 and more
    result = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14 and more: normal; may round up to infinity
    result = ((magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
  } else {
    // The last place of 0.5f is 2^-24, that of a subnormal: the addition does the rounding.
    result = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  }
  return static_cast<uint16_t>(sign | result);
}

float Float8E4M3ToFloat(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude < 8) {
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

uint8_t FloatToFloat8E4M3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result;
  if (magnitude >= 0x43f00000u) {  // 480 and more, also infinity and NaN
    result = 0x7fu;
  } else if (magnitude >= 0x3c800000u) {  // 2^-6 and more: normal; may round up to NaN
    result = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
  } else {
    // The last place of 2^14 is 2^-9, that of a subnormal: the addition does the rounding.
    result = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000u;
  }
  return static_cast<uint8_t>(((bits >> 24) & 0x80u) | result);
}

// e5m2 is the upper half of a float16.
float Float8E5M2ToFloat(uint8_t bits) {
  return Float16ToFloat(static_cast<uint16_t>(static_cast<uint32_t>(bits) << 8));
}

// Not through float16: that would round twice.
uint8_t FloatToFloat8E5M2(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = ((magnitude >> 21) & 3u) | 0x7eu;
  } else if (magnitude >= 0x47800000u) {  // 2^16 and more
    result = 0x7cu;
  } else if (magnitude >= 0x38800000u) {  // 2^-14 and more: normal; may round up to infinity
    result = ((magnitude + 0xfffffu + ((magnitude >> 21) & 1u)) >> 21) - (112u << 2);
  } else {
    // The last place of 2^7 is 2^-16, that of a subnormal.
    result = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p7f) - 0x43000000u;
  }
  return static_cast<uint8_t>(((bits >> 24) & 0x80u) | result);
}

void ConvertFromFloat(DType to, void* dst, const float* src, size_t count) {
  assert(IsFloating(to));
  if (to == DType::kFloat64) return WidenToFloat64(dst, src, count);
  SumKernel(to).finish(dst, src, count, 1.0);
}

void ConvertToFloat(DType from, float* dst, const void* src, size_t count) {
  assert(IsFloating(from));
  if (from == DType::kFloat64) return NarrowFloat64(dst, src, count);
  SumKernel(from).widen(dst, src, count);
}

}  // namespace rz
