// Element types and reduction operations, as collectives, kernels and the optimizer name them.
//
// The 8-bit floats are those of the OCP 8-bit Floating Point Specification (OFP8) 1.0. e5m2 has the
// infinities and NaNs of IEEE 754. e4m3 has no infinity: 0x7f and 0xff are its only NaNs, every
// other code is a number, the largest 448. (ml_dtypes and PyTorch call it float8_e4m3fn.)
#ifndef RINGZERO_RUNTIME_BASE_DTYPE_H_
#define RINGZERO_RUNTIME_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace rz {

// Tables are indexed by these values: new ones come last.
enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kBFloat16,
  kFloat16,
  kInt32,
  kInt64,
  kInt8,
  kUint8,
  kUint32,
  kUint64,
  kFloat8E4M3,
  kFloat8E5M2,
};

inline constexpr DType kAllDTypes[] = {
    DType::kFloat32, DType::kFloat64, DType::kBFloat16,   DType::kFloat16,
    DType::kInt32,   DType::kInt64,   DType::kInt8,       DType::kUint8,
    DType::kUint32,  DType::kUint64,  DType::kFloat8E4M3, DType::kFloat8E5M2,
};

// kPremulSum multiplies each rank's input by a factor that the call gives, then sums. kFunction is
// what a function of the caller's does; it has no kernel, and no name that parses.
enum class ReduceOp : uint8_t { kSum, kMin, kMax, kAvg, kProd, kPremulSum, kFunction };

// But kFunction.
inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::kSum, ReduceOp::kMin,  ReduceOp::kMax,
                                             ReduceOp::kAvg, ReduceOp::kProd, ReduceOp::kPremulSum};

// How a reduction may round. kDeterministic: the canonical sum of one rounding, the same bits over
// algorithm, slicing, transport and SIMD level. kFast: any algorithm; a ring of 16- or 8-bit
// floats rounds at each hop.
enum class NumericMode : uint8_t { kDeterministic, kFast };

// Bytes of one element.
size_t SizeOf(DType dtype);

bool IsFloating(DType dtype);

// The type partial results are kept in: float32 for 16- and 8-bit floats, the type itself for all
// others. Integers, those of 8 bits too, wrap modulo 2^bits.
DType AccumulatorOf(DType dtype);

// "float32", "float8_e4m3", "premul_sum", ...; the short names of the tools ("fp32", "bf16") and
// those of nccl-tests ("float", "half", "f8e4m3", "mulsum") parse as well.
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
