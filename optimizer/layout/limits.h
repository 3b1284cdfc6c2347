// Limits of the flat layout, in one table.
#ifndef RINGZERO_OPTIMIZER_LAYOUT_LIMITS_H_
#define RINGZERO_OPTIMIZER_LAYOUT_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace rz {

// Every parameter and every chunk starts at a multiple of this many elements: 64 bytes of a 16-bit
// type, more of wider ones. One number for all dtypes, so that the layout depends on none.
inline constexpr int64_t kAlignmentElements = 32;

// Elements of one rank's chunk in a tile: 64 KiB of a 16-bit type.
inline constexpr int64_t kDefaultTileChunk = 32768;
inline constexpr int64_t kMaxTileChunk = int64_t{1} << 30;

// Elements of one flat space. Its bytes in any dtype, times any world size in sight, fit 63 bits.
inline constexpr int64_t kMaxFlatElements = int64_t{1} << 46;

inline constexpr size_t kMaxParameters = size_t{1} << 20;
inline constexpr size_t kMaxParameterNameBytes = 512;

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_LAYOUT_LIMITS_H_
