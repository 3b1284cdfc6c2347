#include "collectives/testing/oracle.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "collectives/kernels/convert.h"

namespace rz::testing {
namespace {

// A dtype as the oracle computes with it: Value is the accumulator.
struct BFloat16 {
  using Wire = uint16_t;
  using Value = float;
  static Value Load(Wire bits) { return BFloat16ToFloat(bits); }
  static Wire Store(Value value) { return FloatToBFloat16(value); }
};
struct Float16 {
  using Wire = uint16_t;
  using Value = float;
  static Value Load(Wire bits) { return Float16ToFloat(bits); }
  static Wire Store(Value value) { return FloatToFloat16(value); }
};
struct Float8E4M3 {
  using Wire = uint8_t;
  using Value = float;
  static Value Load(Wire bits) { return Float8E4M3ToFloat(bits); }
  static Wire Store(Value value) { return FloatToFloat8E4M3(value); }
};
struct Float8E5M2 {
  using Wire = uint8_t;
  using Value = float;
  static Value Load(Wire bits) { return Float8E5M2ToFloat(bits); }
  static Wire Store(Value value) { return FloatToFloat8E5M2(value); }
};
template <typename T>
struct Plain {
  using Wire = T;
  using Value = T;
  static Value Load(Wire value) { return value; }
  static Wire Store(Value value) { return value; }
};

// An operation without a value (inf - inf, 0 * inf) gives the canonical NaN.
template <typename T>
T Canonical(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

template <typename T>
T Add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return Canonical(a + b);
  }
}

template <typename T>
T Multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return Canonical(a * b);
  }
}

template <typename T>
bool Less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) && !std::signbit(b);
  }
  return a < b;
}

template <typename T>
T Apply(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kMin:
      return Less(b, a) ? b : a;
    case ReduceOp::kMax:
      return Less(a, b) ? b : a;
    case ReduceOp::kProd:
      return Multiply(a, b);
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPremulSum:
      return Add(a, b);
    case ReduceOp::kFunction:
      break;  // what it does is given as another op
  }
  return a;
}

template <typename Type>
typename Type::Wire ReadAt(const Bytes& bytes, int64_t index) {
  typename Type::Wire wire;
  std::memcpy(&wire, bytes.data() + index * sizeof(wire), sizeof(wire));
  return wire;
}

// A rank's input as it enters the sum.
template <typename Type>
typename Type::Value Entering(ReduceOp op, typename Type::Wire input, PremulFactor premul) {
  using Value = typename Type::Value;
  if (op != ReduceOp::kPremulSum) return Type::Load(input);
  if constexpr (std::is_integral_v<Value>) {
    return Multiply(static_cast<Value>(premul.integer), Type::Load(input));
  } else {
    return Multiply(static_cast<Value>(premul.floating), Type::Load(input));
  }
}

template <typename Type>
typename Type::Wire ReduceElement(const std::vector<Bytes>& inputs, int64_t index, int owner,
                                  ReduceOp op, Rounding rounding, PremulFactor premul) {
  const int world = static_cast<int>(inputs.size());
  const auto input = [&](int step) {
    return Entering<Type>(op, ReadAt<Type>(inputs[(owner + step) % world], index), premul);
  };
  typename Type::Value sum = input(1);
  for (int step = 2; step <= world; ++step) {
    sum = Apply(op, sum, input(step));
    const bool last = step == world;
    if (rounding == Rounding::kEveryHop && !last) sum = Type::Load(Type::Store(sum));
  }
  if (op == ReduceOp::kAvg) sum /= static_cast<typename Type::Value>(world);
  return Type::Store(sum);
}

template <typename Type>
Bytes Reduce(const std::vector<Bytes>& inputs, const ChunkLayout& layout, ReduceOp op,
             Rounding rounding, PremulFactor premul) {
  Bytes result(inputs[0].size());
  for (int64_t tile = 0; tile < layout.tile_count(); ++tile) {
    for (int owner = 0; owner < layout.world(); ++owner) {
      const Range chunk = layout.Chunk(tile, Rank(owner));
      for (int64_t i = chunk.offset; i < chunk.end(); ++i) {
        const auto wire = ReduceElement<Type>(inputs, i, owner, op, rounding, premul);
        std::memcpy(result.data() + i * sizeof(wire), &wire, sizeof(wire));
      }
    }
  }
  return result;
}

template <typename Type>
Bytes Draw(int64_t count, std::mt19937_64& random) {
  Bytes bytes(count * sizeof(typename Type::Wire));
  for (int64_t i = 0; i < count; ++i) {
    typename Type::Wire wire;
    if constexpr (std::is_integral_v<typename Type::Value>) {
      wire = static_cast<typename Type::Wire>(random());
    } else {
      constexpr int kZeroOneIn = 16;
      const double unit = static_cast<double>(random() >> 11) / (uint64_t{1} << 53);
      const double magnitude =
          std::ldexp(random() % kZeroOneIn == 0 ? 0.0 : unit, static_cast<int>(random() % 12) - 6);
      wire = Type::Store(
          static_cast<typename Type::Value>((random() & 1) != 0 ? -magnitude : magnitude));
    }
    std::memcpy(bytes.data() + i * sizeof(wire), &wire, sizeof(wire));
  }
  return bytes;
}

// Calls f with the oracle's type of `dtype`.
template <typename F>
Bytes Visit(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(Plain<float>{});
    case DType::kFloat64:
      return f(Plain<double>{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kInt32:
      return f(Plain<int32_t>{});
    case DType::kInt64:
      return f(Plain<int64_t>{});
    case DType::kInt8:
      return f(Plain<int8_t>{});
    case DType::kUint8:
      return f(Plain<uint8_t>{});
    case DType::kUint32:
      return f(Plain<uint32_t>{});
    case DType::kUint64:
      return f(Plain<uint64_t>{});
    case DType::kFloat8E4M3:
      return f(Float8E4M3{});
    case DType::kFloat8E5M2:
      return f(Float8E5M2{});
  }
  return {};
}

}  // namespace

Bytes RandomElements(DType dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  return Visit(dtype, [&](auto type) { return Draw<decltype(type)>(count, random); });
}

Bytes ReduceAll(const std::vector<Bytes>& inputs, const ChunkLayout& layout, DType dtype,
                ReduceOp op, Rounding rounding, PremulFactor premul) {
  return Visit(dtype, [&](auto type) {
    return Reduce<decltype(type)>(inputs, layout, op, rounding, premul);
  });
}

Bytes ShardOf(const Bytes& whole, const ChunkLayout& layout, Rank rank, DType dtype) {
  const int64_t size = static_cast<int64_t>(SizeOf(dtype));
  Bytes shard;
  for (int64_t tile = 0; tile < layout.tile_count(); ++tile) {
    const Range chunk = layout.Chunk(tile, rank);
    shard.insert(shard.end(), whole.begin() + chunk.offset * size,
                 whole.begin() + chunk.end() * size);
  }
  return shard;
}

}  // namespace rz::testing
