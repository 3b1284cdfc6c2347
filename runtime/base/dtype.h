// Element types and reduction operations, as collectives, kernels and the optimizer name them.
#ifndef RINGZERO_RUNTIME_BASE_DTYPE_H_
#define RINGZERO_RUNTIME_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace rz {

enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kBFloat16,
  kFloat16,
  kInt32,
  kInt64,
};

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                       DType::kFloat16, DType::kInt32,   DType::kInt64};

enum class ReduceOp : uint8_t { kSum, kMin, kMax, kAvg };

inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                                             ReduceOp::kAvg};

// How a reduction may round. kDeterministic: the canonical sum of one rounding, the same bits over
// algorithm, slicing, transport and SIMD level. kFast: any algorithm; a 16-bit ring rounds at each
// hop.
enum class NumericMode : uint8_t { kDeterministic, kFast };

// Bytes of one element.
size_t SizeOf(DType dtype);

bool IsFloating(DType dtype);

// The type partial sums are kept in: float32 for 16-bit floats, the type itself for all others.
DType AccumulatorOf(DType dtype);

// "float32", "bfloat16", ...; the short names of the tools ("fp32", "bf16") parse as well.
std::string_view NameOf(DType dtype);
std::string_view NameOf(ReduceOp op);
std::string_view NameOf(NumericMode mode);
std::optional<DType> ParseDType(std::string_view name);
std::optional<ReduceOp> ParseReduceOp(std::string_view name);
std::optional<NumericMode> ParseNumericMode(std::string_view name);

std::ostream& operator<<(std::ostream& os, DType dtype);
std::ostream& operator<<(std::ostream& os, ReduceOp op);
std::ostream& operator<<(std::ostream& os, NumericMode mode);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_DTYPE_H_
