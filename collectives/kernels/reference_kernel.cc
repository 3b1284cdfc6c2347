#include "collectives/kernels/reference_kernel.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>

#include "collectives/kernels/reference_element.h"

namespace rz::testing {
namespace {

// `count` results of f(i), each a T.
template <typename T, typename F>
Buffer Generate(size_t count, F f) {
  Buffer buffer(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) Put<T>(buffer.data(), i, f(i));
  return buffer;
}

template <typename T>
std::vector<T> SpecialFloats() {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Limits = std::numeric_limits<T>;
  const Bits infinity = std::bit_cast<Bits>(Limits::infinity());
  return {T{0},
          -T{0},
          T{1},
          T{-1},
          Limits::denorm_min(),
          -Limits::denorm_min(),
          Limits::min(),
          Limits::max(),
          Limits::lowest(),
          Limits::infinity(),
          -Limits::infinity(),
          Limits::epsilon(),
          T{1} + Limits::epsilon(),
          Limits::quiet_NaN(),
          -Limits::quiet_NaN(),
          std::bit_cast<T>(infinity + 1),  // signaling
          std::bit_cast<T>(infinity + 12345),
          T{3},
          T{1} / T{3}};
}

template <typename Wire>
std::vector<Wire> SpecialValues(DType dtype) {
  if constexpr (sizeof(Wire) == 1) {
    std::vector<Wire> all(256);
    std::iota(all.begin(), all.end(), std::numeric_limits<Wire>::min());
    return all;
  } else if constexpr (std::is_same_v<Wire, uint16_t>) {
    if (dtype == DType::kBFloat16) {
      return {0x0000, 0x8000, 0x3f80, 0xbf80, 0x0001, 0x8001, 0x007f, 0x0080, 0x7f7f, 0xff7f,
              0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7f81, 0xff81, 0x7fff, 0x4000, 0x3f81, 0x3b80};
    }
    return {0x0000, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff,
            0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7c01, 0xfc01, 0x7fff, 0x4000, 0x3c01, 0x1000};
  } else if constexpr (std::is_integral_v<Wire>) {
    using Limits = std::numeric_limits<Wire>;
    constexpr Wire kHalf = static_cast<Wire>(Wire{1} << (sizeof(Wire) * 4));
    return {0,
            1,
            static_cast<Wire>(-1),
            2,
            kHalf,
            Limits::max(),
            Limits::min(),
            static_cast<Wire>(Limits::max() - 1),
            static_cast<Wire>(Limits::min() + 1),
            static_cast<Wire>(Limits::max() / 2 + 1)};
  } else {
    return SpecialFloats<Wire>();
  }
}

}  // namespace

Buffer ExpectedWiden(DType dtype, const Buffer& wire) {
  return VisitElement(dtype, [&]<typename E>(E) {
    return Generate<typename E::Value>(wire.size() / sizeof(typename E::Wire), [&](size_t i) {
      return E::Load(At<typename E::Wire>(wire.data(), i));
    });
  });
}

Buffer ExpectedAccumulate(DType dtype, ReduceOp op, const Buffer& partial, const Buffer& wire) {
  return VisitElement(dtype, [&]<typename E>(E) {
    using Value = typename E::Value;
    return Generate<Value>(partial.size() / sizeof(Value), [&](size_t i) {
      return Apply(op, At<Value>(partial.data(), i), E::Load(At<typename E::Wire>(wire.data(), i)));
    });
  });
}

Buffer ExpectedFinish(DType dtype, ReduceOp op, const Buffer& partial, double divisor) {
  return VisitElement(dtype, [&]<typename E>(E) {
    using Value = typename E::Value;
    return Generate<typename E::Wire>(partial.size() / sizeof(Value), [&](size_t i) {
      Value value = At<Value>(partial.data(), i);
      if constexpr (std::is_floating_point_v<Value>) {
        if (op == ReduceOp::kAvg) value = CanonicalNan(value / static_cast<Value>(divisor));
      }
      return E::Store(value);
    });
  });
}

Buffer ExpectedCombine(DType dtype, ReduceOp op, const Buffer& a, const Buffer& b) {
  return VisitElement(dtype, [&]<typename E>(E) {
    using Wire = typename E::Wire;
    return Generate<Wire>(a.size() / sizeof(Wire), [&](size_t i) {
      return E::Store(Apply(op, E::Load(At<Wire>(a.data(), i)), E::Load(At<Wire>(b.data(), i))));
    });
  });
}

Buffer ExpectedWidenScaled(DType dtype, const Buffer& wire, PremulFactor factor) {
  return VisitElement(dtype, [&]<typename E>(E) {
    using Value = typename E::Value;
    return Generate<Value>(wire.size() / sizeof(typename E::Wire), [&](size_t i) {
      return Apply(ReduceOp::kProd, FactorAs<Value>(factor),
                   E::Load(At<typename E::Wire>(wire.data(), i)));
    });
  });
}

Buffer ExpectedAccumulateScaled(DType dtype, const Buffer& partial, const Buffer& wire,
                                PremulFactor factor) {
  const Buffer products = ExpectedWidenScaled(dtype, wire, factor);
  return ExpectedAccumulate(AccumulatorOf(dtype), ReduceOp::kSum, partial, products);
}

Buffer RandomElements(DType dtype, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  return VisitElement(dtype, [&]<typename E>(E) {
    using Wire = typename E::Wire;
    const std::vector<Wire> special = SpecialValues<Wire>(dtype);
    return Generate<Wire>(count, [&](size_t) -> Wire {
      const uint64_t draw = random();
      if (draw % 3 == 0) return special[(draw >> 8) % special.size()];
      if (draw % 3 == 1 || std::is_integral_v<typename E::Value>) {
        const uint64_t bits = random();
        Wire wire;
        std::memcpy(&wire, &bits, sizeof(wire));
        return wire;
      }
      return E::Store(static_cast<typename E::Value>(
          std::ldexp(static_cast<double>(static_cast<int64_t>(draw)), -62)));
    });
  });
}

std::pair<Buffer, Buffer> AllSpecialPairs(DType dtype) {
  return VisitElement(dtype, [&]<typename E>(E) {
    using Wire = typename E::Wire;
    const std::vector<Wire> values = SpecialValues<Wire>(dtype);
    const size_t n = values.size();
    return std::pair(Generate<Wire>(n * n, [&](size_t i) { return values[i / n]; }),
                     Generate<Wire>(n * n, [&](size_t i) { return values[i % n]; }));
  });
}

std::vector<size_t> ElementCounts() {
  std::vector<size_t> counts(131);
  std::iota(counts.begin(), counts.end(), size_t{0});
  for (size_t count : {255, 256, 257, 321, 1023, 5003}) counts.push_back(count);
  return counts;
}

Guarded::Guarded(size_t size, size_t offset)
    : bytes_(size + offset + kGuard, kFill), offset_(offset) {}

Guarded::Guarded(const Buffer& data, size_t offset) : Guarded(data.size(), offset) {
  if (!data.empty()) std::memcpy(this->data(), data.data(), data.size());
}

bool Guarded::intact() const {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if ((i < offset_ || i >= offset_ + size()) && bytes_[i] != kFill) return false;
  }
  return true;
}

std::string KernelName(SimdLevel level, DType dtype, ReduceOp op) {
  return std::string(NameOf(level)) + "_" + std::string(NameOf(dtype)) + "_" +
         std::string(NameOf(op));
}

}  // namespace rz::testing
