#include "runtime/base/dtype.h"

#include <iterator>

namespace rz {
namespace {

struct DTypeRow {
  DType dtype;
  size_t size;
  bool floating;
  DType accumulator;
  std::string_view name;
  std::string_view short_name;
  std::string_view nccl_name;  // as nccl-tests takes it after -d
};

constexpr DTypeRow kDTypes[] = {
    {DType::kFloat32, 4, true, DType::kFloat32, "float32", "fp32", "float"},
    {DType::kFloat64, 8, true, DType::kFloat64, "float64", "fp64", "double"},
    {DType::kBFloat16, 2, true, DType::kFloat32, "bfloat16", "bf16", "bfloat16"},
    {DType::kFloat16, 2, true, DType::kFloat32, "float16", "fp16", "half"},
    {DType::kInt32, 4, false, DType::kInt32, "int32", "i32", "int32"},
    {DType::kInt64, 8, false, DType::kInt64, "int64", "i64", "int64"},
    {DType::kInt8, 1, false, DType::kInt8, "int8", "i8", "int8"},
    {DType::kUint8, 1, false, DType::kUint8, "uint8", "u8", "uint8"},
    {DType::kUint32, 4, false, DType::kUint32, "uint32", "u32", "uint32"},
    {DType::kUint64, 8, false, DType::kUint64, "uint64", "u64", "uint64"},
    {DType::kFloat8E4M3, 1, true, DType::kFloat32, "float8_e4m3", "fp8_e4m3", "f8e4m3"},
    {DType::kFloat8E5M2, 1, true, DType::kFloat32, "float8_e5m2", "fp8_e5m2", "f8e5m2"},
};
static_assert(std::size(kDTypes) == std::size(kAllDTypes));

constexpr const DTypeRow& RowOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

}  // namespace

size_t SizeOf(DType dtype) { return RowOf(dtype).size; }

bool IsFloating(DType dtype) { return RowOf(dtype).floating; }

DType AccumulatorOf(DType dtype) { return RowOf(dtype).accumulator; }

std::string_view NameOf(DType dtype) { return RowOf(dtype).name; }

std::string_view NameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAvg:
      return "avg";
    case ReduceOp::kProd:
      return "prod";
    case ReduceOp::kPremulSum:
      return "premul_sum";
    case ReduceOp::kFunction:
      return "function";
  }
  return "unknown";
}

std::string_view NameOf(NumericMode mode) {
  return mode == NumericMode::kDeterministic ? "deterministic" : "fast";
}

std::optional<DType> ParseDType(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (name == row.name || name == row.short_name || name == row.nccl_name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<ReduceOp> ParseReduceOp(std::string_view name) {
  for (ReduceOp op : kAllReduceOps) {
    if (name == NameOf(op)) return op;
  }
  if (name == "mulsum") return ReduceOp::kPremulSum;  // nccl-tests
  return std::nullopt;
}

std::optional<NumericMode> ParseNumericMode(std::string_view name) {
  for (NumericMode mode : {NumericMode::kDeterministic, NumericMode::kFast}) {
    if (name == NameOf(mode)) return mode;
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& os, DType dtype) { return os << NameOf(dtype); }
std::ostream& operator<<(std::ostream& os, ReduceOp op) { return os << NameOf(op); }
std::ostream& operator<<(std::ostream& os, NumericMode mode) { return os << NameOf(mode); }

}  // namespace rz
