#include "runtime/base/simd_level.h"

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/log.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace rz {
namespace {

constexpr SimdLevel kAllLevels[] = {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512};

#if defined(__x86_64__)
// __builtin_cpu_supports counts a feature only where the operating system saves its registers; it
// does not know F16C by name in every compiler, and F16C needs no more than AVX does.
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
bool HasAvx2() { return false; }
bool HasAvx512() { return false; }
#endif

std::string SupportedNames() {
  std::string names;
  for (SimdLevel level : SupportedSimdLevels()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(NameOf(level)));
  }
  return names;
}

}  // namespace

std::string_view NameOf(SimdLevel level) {
  switch (level) {
    case SimdLevel::kPortable:
      return "portable";
    case SimdLevel::kAvx2:
      return "avx2";
    case SimdLevel::kAvx512:
      return "avx512";
  }
  return "unknown";
}

std::optional<SimdLevel> ParseSimdLevel(std::string_view name) {
  for (SimdLevel level : kAllLevels) {
    if (name == NameOf(level)) return level;
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& os, SimdLevel level) { return os << NameOf(level); }

std::vector<SimdLevel> SupportedSimdLevels() {
  std::vector<SimdLevel> levels = {SimdLevel::kPortable};
  if (HasAvx2()) levels.push_back(SimdLevel::kAvx2);
  if (HasAvx512()) levels.push_back(SimdLevel::kAvx512);
  return levels;
}

absl::StatusOr<SimdLevel> ChooseSimdLevel() {
  const std::vector<SimdLevel> supported = SupportedSimdLevels();
  const char* wanted = std::getenv("RZ_SIMD");
  if (wanted == nullptr || *wanted == '\0') return supported.back();
  for (SimdLevel level : supported) {
    if (wanted == NameOf(level)) return level;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("RZ_SIMD=", wanted, " is ",
                   ParseSimdLevel(wanted).has_value() ? "a level this processor lacks"
                                                      : "no level of vector instructions",
                   "; set one of ", SupportedNames(), ", or unset it to take the highest"));
}

SimdLevel ActiveSimdLevel() {
  static const SimdLevel active = [] {
    const absl::StatusOr<SimdLevel> chosen = ChooseSimdLevel();
    if (chosen.ok()) return *chosen;
    Log(LogLevel::kWarning, chosen.status().message(), "; using portable code");
    return SimdLevel::kPortable;
  }();
  return active;
}

}  // namespace rz
