#include "optimizer/float_sum.h"

#include <algorithm>

#include "collectives/kernels/convert.h"

namespace rz {

void AddAsFloat(DType from, float* to, const void* values, size_t count, bool first) {
  if (first) {
    ConvertToFloat(from, to, values, count);
    return;
  }
  constexpr size_t kBlock = 1024;
  float wide[kBlock];
  const std::byte* at = static_cast<const std::byte*>(values);
  while (count > 0) {
    const size_t block = std::min(count, kBlock);
    ConvertToFloat(from, wide, at, block);
    for (size_t i = 0; i < block; ++i) to[i] += wide[i];
    to += block;
    at += block * SizeOf(from);
    count -= block;
  }
}

}  // namespace rz
