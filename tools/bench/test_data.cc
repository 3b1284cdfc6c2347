#include "tools/bench/test_data.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "collectives/kernels/convert.h"

namespace rz {
namespace {

// Elements generated at a time.
constexpr int64_t kBlock = 1024;

// The finalizer of splitmix64 (Steele, Lea and Flood, 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t Bits(uint64_t seed, int64_t index) {
  return Mix(seed + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u);
}

uint64_t RankSeed(uint64_t seed, int rank) {
  return Mix(seed ^ (static_cast<uint64_t>(rank) + 1) * 0xd1342543de82ef95u);
}

// The largest integer up to which all integers are numbers of the dtype (less is enough for wide
// ones).
int64_t ExactIntegers(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return int64_t{1} << 40;
    case DType::kFloat32:
      return int64_t{1} << 24;
    case DType::kFloat16:
      return 2048;
    case DType::kBFloat16:
      return 256;
    case DType::kFloat8E4M3:
      return 16;
    default:
      return 8;  // e5m2
  }
}

// One rank's input of a reduction of floats. `common` is the same on all ranks, `own` is not.
class FloatInput {
 public:
  FloatInput(DType dtype, ReduceOp op, int world) : op_(op), world_(world) {
    int64_t budget = ExactIntegers(dtype);
    if (op == ReduceOp::kPremulSum) budget /= 2;  // the factor
    if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
      largest_ = std::min<int64_t>(budget, 1000);
    } else if (op == ReduceOp::kProd) {
      every_ = std::max(1, (world + 3) / 4);  // at most 4 exponents that are not 0
    } else {
      largest_ = std::clamp<int64_t>(budget / world, 1, 1000);
      every_ = std::max<int64_t>(1, (world + budget - 1) / budget);
    }
  }

  double Value(uint64_t common, uint64_t own, int rank) const {
    const bool takes_part =
        every_ == 1 || (common % static_cast<uint64_t>(every_) + static_cast<uint64_t>(rank)) %
                               static_cast<uint64_t>(every_) ==
                           0;
    if (op_ == ReduceOp::kProd) {
      double value = (own & 1) != 0 ? -1 : 1;
      if (takes_part) value *= (own & 2) != 0 ? 2 : (own & 4) != 0 ? 0.5 : 1;
      const bool is_odd =
          (common >> 32) % static_cast<uint64_t>(world_) == static_cast<uint64_t>(rank);
      return is_odd && (own & 8) != 0 ? 3 * value : value;
    }
    if (!takes_part) return 0;
    // Never -0: that would depend on the order.
    const auto width = static_cast<uint64_t>(2 * largest_ + 1);
    return static_cast<double>(static_cast<int64_t>((own >> 16) % width) - largest_);
  }

 private:
  ReduceOp op_;
  int world_;
  int64_t largest_ = 0;
  int64_t every_ = 1;  // one rank in so many takes part
};

void Store(DType dtype, const double* values, int64_t count, void* dst) {
  if (dtype == DType::kFloat64) {
    std::memcpy(dst, values, static_cast<size_t>(count) * sizeof(double));
    return;
  }
  float floats[kBlock];
  for (int64_t i = 0; i < count; ++i) floats[i] = static_cast<float>(values[i]);
  ConvertFromFloat(dtype, dst, floats, static_cast<size_t>(count));
}

double Apply(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    default:
      return a + b;
  }
}

// Blocks of at most kBlock elements.
void FillFloats(DType dtype, ReduceOp op, int world, uint64_t seed, int rank, int64_t begin,
                int64_t count, void* dst) {
  const FloatInput input(dtype, op, world);
  const uint64_t rank_seed = RankSeed(seed, rank);
  double values[kBlock];
  for (int64_t i = 0; i < count; ++i) {
    values[i] = input.Value(Bits(seed, begin + i), Bits(rank_seed, begin + i), rank);
  }
  Store(dtype, values, count, dst);
}

void ReduceFloats(DType dtype, ReduceOp op, int world, uint64_t seed, int64_t begin, int64_t count,
                  void* dst) {
  const FloatInput input(dtype, op, world);
  double values[kBlock];
  for (int rank = 0; rank < world; ++rank) {
    const uint64_t rank_seed = RankSeed(seed, rank);
    for (int64_t i = 0; i < count; ++i) {
      double value = input.Value(Bits(seed, begin + i), Bits(rank_seed, begin + i), rank);
      if (op == ReduceOp::kPremulSum) value *= TestData(dtype, op, world).premul().floating;
      values[i] = rank == 0 ? value : Apply(op, values[i], value);
    }
  }
  for (int64_t i = 0; i < count && op == ReduceOp::kAvg; ++i) {
    if (dtype == DType::kFloat64) {
      values[i] /= world;
    } else {
      values[i] = static_cast<float>(values[i]) / static_cast<float>(world);
    }
  }
  Store(dtype, values, count, dst);
}

template <typename T>
T ApplyInteger(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kProd:
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    default:
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

// Odd factors, or a product of many soon is 0.
template <typename T>
T IntegerInput(std::optional<ReduceOp> op, uint64_t bits) {
  return static_cast<T>(op == ReduceOp::kProd ? bits | 1 : bits);
}

template <typename T>
void ReduceIntegers(ReduceOp op, int world, int64_t factor, uint64_t seed, int64_t begin,
                    int64_t count, void* dst) {
  T values[kBlock];
  for (int rank = 0; rank < world; ++rank) {
    const uint64_t rank_seed = RankSeed(seed, rank);
    for (int64_t i = 0; i < count; ++i) {
      T value = IntegerInput<T>(op, Bits(rank_seed, begin + i));
      if (op == ReduceOp::kPremulSum) {
        value = static_cast<T>(static_cast<uint64_t>(value) * static_cast<uint64_t>(factor));
      }
      values[i] = rank == 0 ? value : ApplyInteger(op, values[i], value);
    }
  }
  std::memcpy(dst, values, static_cast<size_t>(count) * sizeof(T));
}

// Arbitrary bits, which are also the inputs of integer reductions.
template <typename T>
void FillBits(std::optional<ReduceOp> op, uint64_t seed, int rank, int64_t begin, int64_t count,
              void* dst) {
  const uint64_t rank_seed = RankSeed(seed, rank);
  T values[kBlock];
  for (int64_t i = 0; i < count; ++i) {
    values[i] = IntegerInput<T>(op, Bits(rank_seed, begin + i));
  }
  std::memcpy(dst, values, static_cast<size_t>(count) * sizeof(T));
}

void FillBitsOf(size_t size, std::optional<ReduceOp> op, uint64_t seed, int rank, int64_t begin,
                int64_t count, void* dst) {
  switch (size) {
    case 1:
      return FillBits<uint8_t>(op, seed, rank, begin, count, dst);
    case 2:
      return FillBits<uint16_t>(op, seed, rank, begin, count, dst);
    case 4:
      return FillBits<uint32_t>(op, seed, rank, begin, count, dst);
    default:
      return FillBits<uint64_t>(op, seed, rank, begin, count, dst);
  }
}

void ReduceIntegersOf(DType dtype, ReduceOp op, int world, int64_t factor, uint64_t seed,
                      int64_t begin, int64_t count, void* dst) {
  switch (dtype) {
    case DType::kInt8:
      return ReduceIntegers<int8_t>(op, world, factor, seed, begin, count, dst);
    case DType::kUint8:
      return ReduceIntegers<uint8_t>(op, world, factor, seed, begin, count, dst);
    case DType::kInt32:
      return ReduceIntegers<int32_t>(op, world, factor, seed, begin, count, dst);
    case DType::kUint32:
      return ReduceIntegers<uint32_t>(op, world, factor, seed, begin, count, dst);
    case DType::kInt64:
      return ReduceIntegers<int64_t>(op, world, factor, seed, begin, count, dst);
    default:
      return ReduceIntegers<uint64_t>(op, world, factor, seed, begin, count, dst);
  }
}

// Calls f(first element, elements) for each block of [0, count).
template <typename F>
void ForEachBlock(int64_t count, F f) {
  for (int64_t done = 0; done < count; done += kBlock) f(done, std::min(kBlock, count - done));
}

}  // namespace

TestData::TestData(DType dtype, std::optional<ReduceOp> op, int world)
    : dtype_(dtype), op_(op), world_(world) {}

void TestData::Fill(uint64_t seed, int rank, int64_t begin, int64_t count, void* dst) const {
  const size_t size = SizeOf(dtype_);
  ForEachBlock(count, [&](int64_t at, int64_t elements) {
    std::byte* const to = static_cast<std::byte*>(dst) + static_cast<size_t>(at) * size;
    if (op_.has_value() && IsFloating(dtype_)) {
      FillFloats(dtype_, *op_, world_, seed, rank, begin + at, elements, to);
    } else {
      FillBitsOf(size, op_, seed, rank, begin + at, elements, to);
    }
  });
}

void TestData::Expect(uint64_t seed, const ExpectedPiece& piece, void* dst) const {
  if (piece.source != ExpectedPiece::kAllRanks) {
    return Fill(seed, piece.source, piece.source_index, piece.count, dst);
  }
  ForEachBlock(piece.count, [&](int64_t at, int64_t elements) {
    std::byte* const to = static_cast<std::byte*>(dst) + static_cast<size_t>(at) * SizeOf(dtype_);
    const int64_t begin = piece.source_index + at;
    if (IsFloating(dtype_)) {
      ReduceFloats(dtype_, *op_, world_, seed, begin, elements, to);
    } else {
      ReduceIntegersOf(dtype_, *op_, world_, premul().integer, seed, begin, elements, to);
    }
  });
}

int64_t TestData::CountWrong(uint64_t seed, const ExpectedPiece& piece, const void* recv) const {
  const size_t size = SizeOf(dtype_);
  const std::byte* const found =
      static_cast<const std::byte*>(recv) + static_cast<size_t>(piece.offset) * size;
  alignas(64) std::byte expected[kBlock * sizeof(uint64_t)];
  int64_t wrong = 0;
  ForEachBlock(piece.count, [&](int64_t at, int64_t elements) {
    Expect(seed,
           {.count = elements, .source = piece.source, .source_index = piece.source_index + at},
           expected);
    const std::byte* const block = found + static_cast<size_t>(at) * size;
    if (std::memcmp(block, expected, static_cast<size_t>(elements) * size) == 0) return;
    for (size_t i = 0; i < static_cast<size_t>(elements); ++i) {
      wrong += std::memcmp(block + i * size, expected + i * size, size) == 0 ? 0 : 1;
    }
  });
  return wrong;
}

}  // namespace rz
