// What one element of a reduction must be: each dtype and each operation in plain C++ on single
// values. Tests hold the vector kernels against it; it shares only convert.h with them, whose
// scalar forms convert_test.cc holds against the formats' definitions.
#ifndef RINGZERO_COLLECTIVES_KERNELS_REFERENCE_ELEMENT_H_
#define RINGZERO_COLLECTIVES_KERNELS_REFERENCE_ELEMENT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#include "collectives/kernels/convert.h"
#include "collectives/kernels/reduce_kernel.h"
#include "runtime/base/dtype.h"

namespace rz::testing {

// A dtype as it lies in memory (Wire) and as it is computed with (Value).
template <typename T>
struct PlainElement {
  using Wire = T;
  using Value = T;
  static Value Load(Wire wire) { return wire; }
  static Wire Store(Value value) { return value; }
};

template <typename WireType, float (*load)(WireType), WireType (*store)(float)>
struct NarrowFloat {
  using Wire = WireType;
  using Value = float;
  static Value Load(Wire wire) { return load(wire); }
  static Wire Store(Value value) { return store(value); }
};

// Calls f with the element type of `dtype`.
template <typename F>
auto VisitElement(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(PlainElement<float>());
    case DType::kFloat64:
      return f(PlainElement<double>());
    case DType::kBFloat16:
      return f(NarrowFloat<uint16_t, BFloat16ToFloat, FloatToBFloat16>());
    case DType::kFloat16:
      return f(NarrowFloat<uint16_t, Float16ToFloat, FloatToFloat16>());
    case DType::kInt32:
      return f(PlainElement<int32_t>());
    case DType::kInt64:
      return f(PlainElement<int64_t>());
    case DType::kInt8:
      return f(PlainElement<int8_t>());
    case DType::kUint8:
      return f(PlainElement<uint8_t>());
    case DType::kUint32:
      return f(PlainElement<uint32_t>());
    case DType::kUint64:
      return f(PlainElement<uint64_t>());
    case DType::kFloat8E4M3:
      return f(NarrowFloat<uint8_t, Float8E4M3ToFloat, FloatToFloat8E4M3>());
    case DType::kFloat8E5M2:
      return f(NarrowFloat<uint8_t, Float8E5M2ToFloat, FloatToFloat8E5M2>());
  }
  std::abort();
}

template <typename T>
T CanonicalNan(T x) {
  return std::isnan(x) ? std::numeric_limits<T>::quiet_NaN() : x;
}

template <typename T>
T ApplyToFloats(ReduceOp op, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (op == ReduceOp::kProd) return CanonicalNan(a * b);
  if (op != ReduceOp::kMin && op != ReduceOp::kMax) return CanonicalNan(a + b);
  const bool a_is_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return (op == ReduceOp::kMin) == a_is_less ? a : b;
}

template <typename T>
T ApplyToIntegers(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMin) return std::min(a, b);
  if (op == ReduceOp::kMax) return std::max(a, b);
  const uint64_t x = static_cast<uint64_t>(a);
  const uint64_t y = static_cast<uint64_t>(b);
  return static_cast<T>(op == ReduceOp::kProd ? x * y : x + y);
}

// One operation of a partial result with an input; sums for kAvg and kPremulSum.
template <typename T>
T Apply(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return ApplyToFloats(op, a, b);
  } else {
    return ApplyToIntegers(op, a, b);
  }
}

template <typename T>
T FactorAs(PremulFactor factor) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(factor.floating);
  } else {
    return static_cast<T>(factor.integer);
  }
}

template <typename T>
T At(const unsigned char* data, size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Put(unsigned char* data, size_t i, T value) {
  std::memcpy(data + i * sizeof(T), &value, sizeof(T));
}

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_KERNELS_REFERENCE_ELEMENT_H_
