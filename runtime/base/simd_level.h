// Which vector instructions the kernels may use. Nothing is compiled with -march=native: each
// kernel exists once a level, and the level is chosen when the program runs.
#ifndef RINGZERO_RUNTIME_BASE_SIMD_LEVEL_H_
#define RINGZERO_RUNTIME_BASE_SIMD_LEVEL_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rz {

enum class SimdLevel : uint8_t {
  kPortable,
  kAvx2,    // AVX2, FMA and F16C
  kAvx512,  // AVX-512 F, BW, DQ and VL, and all of kAvx2
};

std::string_view NameOf(SimdLevel level);  // "portable", "avx2", "avx512"
std::optional<SimdLevel> ParseSimdLevel(std::string_view name);
std::ostream& operator<<(std::ostream& os, SimdLevel level);

// Levels this processor can run, lowest first; kPortable is always there.
std::vector<SimdLevel> SupportedSimdLevels();

// The level of this process: RZ_SIMD where set, otherwise the highest supported.
//   InvalidArgument  RZ_SIMD is no level, or one this processor lacks; the message lists those it
//   has
absl::StatusOr<SimdLevel> ChooseSimdLevel();

// ChooseSimdLevel() once, kept; falls back to portable with a log line where RZ_SIMD is wrong, so
// that libraries never stop a process. Programs check ChooseSimdLevel() at their start.
SimdLevel ActiveSimdLevel();

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_SIMD_LEVEL_H_
