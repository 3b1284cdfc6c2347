#include "collectives/kernels/reduce_kernel.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/kernels/convert.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using rz::testing::IsOk;
using rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Buffer = std::vector<unsigned char>;

constexpr uint32_t kNan32 = 0x7fc00000u;
constexpr uint64_t kNan64 = 0x7ff8000000000000u;

// What one element of a reduction must be, in plain C++ on bit patterns.

template <typename T>
T Canonical(T x) {
  if (!std::isnan(x)) return x;
  if constexpr (sizeof(T) == 4) return std::bit_cast<T>(kNan32);
  if constexpr (sizeof(T) == 8) return std::bit_cast<T>(kNan64);
}

template <typename T>
T ApplyFloat(ReduceOp op, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return Canonical(std::numeric_limits<T>::quiet_NaN());
  if (op == ReduceOp::kSum || op == ReduceOp::kAvg) return Canonical(a + b);
  const bool a_is_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return (op == ReduceOp::kMin) == a_is_less ? a : b;
}

template <typename T>
T ApplyInteger(ReduceOp op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  if (op == ReduceOp::kSum) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  return op == ReduceOp::kMin ? std::min(a, b) : std::max(a, b);
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

float WireToFloat(DType dtype, uint16_t code) {
  return dtype == DType::kBFloat16 ? BFloat16ToFloat(code) : Float16ToFloat(code);
}

uint16_t FloatToWire(DType dtype, float value) {
  return dtype == DType::kBFloat16 ? FloatToBFloat16(value) : FloatToFloat16(value);
}

// dst[i] = op(a[i], b[i]); a and dst in `partial`, b in `wire`.
void ExpectedOp(ReduceOp op, DType partial, DType wire, unsigned char* dst, const unsigned char* a,
                const unsigned char* b, size_t count) {
  const auto as_float = [](DType dtype, const unsigned char* data, size_t i) {
    return dtype == DType::kFloat32 ? At<float>(data, i)
                                    : WireToFloat(dtype, At<uint16_t>(data, i));
  };
  for (size_t i = 0; i < count; ++i) {
    if (wire == DType::kFloat64) {
      Put(dst, i, ApplyFloat(op, At<double>(a, i), At<double>(b, i)));
    } else if (wire == DType::kInt32) {
      Put(dst, i, ApplyInteger(op, At<int32_t>(a, i), At<int32_t>(b, i)));
    } else if (wire == DType::kInt64) {
      Put(dst, i, ApplyInteger(op, At<int64_t>(a, i), At<int64_t>(b, i)));
    } else {
      const float result = ApplyFloat(op, as_float(partial, a, i), as_float(wire, b, i));
      if (partial == DType::kFloat32) {
        Put(dst, i, result);
      } else {
        Put(dst, i, FloatToWire(partial, result));
      }
    }
  }
}

// Elements that go wrong first, then random bit patterns and random values of moderate size.
template <typename T>
std::vector<T> SpecialValues(DType dtype) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    if (dtype == DType::kBFloat16) {
      return {0x0000, 0x8000, 0x3f80, 0xbf80, 0x0001, 0x8001, 0x007f, 0x0080, 0x7f7f, 0xff7f,
              0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7f81, 0xff81, 0x7fff, 0x4000, 0x3f81, 0x3b80};
    }
    return {0x0000, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff,
            0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7c01, 0xfc01, 0x7fff, 0x4000, 0x3c01, 0x1000};
  } else if constexpr (std::is_integral_v<T>) {
    return {0,
            1,
            -1,
            2,
            std::numeric_limits<T>::max(),
            std::numeric_limits<T>::min(),
            std::numeric_limits<T>::max() - 1,
            std::numeric_limits<T>::min() + 1};
  } else {
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
}

template <typename T>
void Fill(DType dtype, std::mt19937_64& random, unsigned char* data, size_t count) {
  const std::vector<T> special = SpecialValues<T>(dtype);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t draw = random();
    if (draw % 3 == 0) {
      Put(data, i, special[(draw >> 8) % special.size()]);
    } else if (draw % 3 == 1 || std::is_integral_v<T>) {
      const uint64_t bits = random();
      std::memcpy(data + i * sizeof(T), &bits, sizeof(T));
    } else {
      Put(data, i,
          static_cast<T>(std::ldexp(static_cast<double>(static_cast<int64_t>(draw)), -62)));
    }
  }
}

Buffer RandomElements(DType dtype, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Buffer data(count * SizeOf(dtype));
  switch (dtype) {
    case DType::kFloat32:
      Fill<float>(dtype, random, data.data(), count);
      break;
    case DType::kFloat64:
      Fill<double>(dtype, random, data.data(), count);
      break;
    case DType::kBFloat16:
    case DType::kFloat16:
      Fill<uint16_t>(dtype, random, data.data(), count);
      break;
    case DType::kInt32:
      Fill<int32_t>(dtype, random, data.data(), count);
      break;
    case DType::kInt64:
      Fill<int64_t>(dtype, random, data.data(), count);
      break;
  }
  return data;
}

// Every pair of special values, as two arrays.
template <typename T>
std::pair<Buffer, Buffer> AllSpecialPairs(DType dtype) {
  const std::vector<T> values = SpecialValues<T>(dtype);
  Buffer a(values.size() * values.size() * sizeof(T)), b(a.size());
  for (size_t i = 0; i < values.size() * values.size(); ++i) {
    Put(a.data(), i, values[i / values.size()]);
    Put(b.data(), i, values[i % values.size()]);
  }
  return {a, b};
}

std::pair<Buffer, Buffer> AllSpecialPairs(DType dtype) {
  if (dtype == DType::kFloat32) return AllSpecialPairs<float>(dtype);
  if (dtype == DType::kFloat64) return AllSpecialPairs<double>(dtype);
  if (dtype == DType::kInt32) return AllSpecialPairs<int32_t>(dtype);
  if (dtype == DType::kInt64) return AllSpecialPairs<int64_t>(dtype);
  return AllSpecialPairs<uint16_t>(dtype);
}

std::vector<size_t> Counts() {
  std::vector<size_t> counts;
  for (size_t count = 0; count <= 130; ++count) counts.push_back(count);
  counts.push_back(1023);
  counts.push_back(5003);
  return counts;
}

// Writes `data` at `offset` into a guarded buffer, so that any store beyond the array is seen.
class Guarded {
 public:
  Guarded(size_t size, size_t offset) : bytes_(size + offset + kGuard, kFill), offset_(offset) {}
  Guarded(const Buffer& data, size_t offset) : Guarded(data.size(), offset) {
    if (!data.empty()) std::memcpy(this->data(), data.data(), data.size());
  }
  unsigned char* data() { return bytes_.data() + offset_; }
  size_t size() const { return bytes_.size() - offset_ - kGuard; }
  Buffer content() { return Buffer(data(), data() + size()); }
  bool intact() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + size()) && bytes_[i] != kFill) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 96;
  static constexpr unsigned char kFill = 0xa5;
  Buffer bytes_;
  size_t offset_;
};

using LevelDTypeOp = std::tuple<SimdLevel, DType, ReduceOp>;

class ReduceKernelTest : public ::testing::TestWithParam<LevelDTypeOp> {
 protected:
  SimdLevel level() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  ReduceOp op() const { return std::get<2>(GetParam()); }
  DType accumulator() const { return AccumulatorOf(dtype()); }
  const ReduceKernel& kernel() const { return **GetReduceKernel(dtype(), op(), level()); }
};

TEST_P(ReduceKernelTest, AccumulateIsTheOperationInTheAccumulator) {
  for (size_t count : Counts()) {
    const Buffer a = RandomElements(accumulator(), count, 1 + count);
    const Buffer b = RandomElements(dtype(), count, 1000 + count);
    Buffer expected(a.size());
    ExpectedOp(op(), accumulator(), dtype(), expected.data(), a.data(), b.data(), count);
    Guarded from_a(a, 3), from_b(b, 1), to(a.size(), 5);
    kernel().accumulate(to.data(), from_a.data(), from_b.data(), count);
    ASSERT_EQ(to.content(), expected) << count;
    ASSERT_TRUE(to.intact()) << count;
    kernel().accumulate(from_a.data(), from_a.data(), from_b.data(), count);
    ASSERT_EQ(from_a.content(), expected) << count << " in place of a";
    ASSERT_TRUE(from_a.intact()) << count;
  }
}

TEST_P(ReduceKernelTest, CombineRoundsOnceToTheWire) {
  for (size_t count : Counts()) {
    const Buffer a = RandomElements(dtype(), count, 1 + count);
    const Buffer b = RandomElements(dtype(), count, 1000 + count);
    Buffer expected(a.size());
    ExpectedOp(op(), dtype(), dtype(), expected.data(), a.data(), b.data(), count);
    Guarded from_a(a, 1), from_b(b, 0), to(a.size(), 7);
    kernel().combine(to.data(), from_a.data(), from_b.data(), count);
    ASSERT_EQ(to.content(), expected) << count;
    ASSERT_TRUE(to.intact()) << count;
    Guarded in_b(b, 64);
    kernel().combine(in_b.data(), from_a.data(), in_b.data(), count);
    ASSERT_EQ(in_b.content(), expected) << count << " in place of b";
    ASSERT_TRUE(in_b.intact()) << count;
    kernel().combine(from_a.data(), from_a.data(), from_b.data(), count);
    ASSERT_EQ(from_a.content(), expected) << count << " in place of a";
  }
}

TEST_P(ReduceKernelTest, EveryPairOfSpecialValues) {
  const auto [a, b] = AllSpecialPairs(dtype());
  const size_t count = a.size() / SizeOf(dtype());
  Buffer expected(a.size()), result(a.size()), swapped(a.size());
  ExpectedOp(op(), dtype(), dtype(), expected.data(), a.data(), b.data(), count);
  kernel().combine(result.data(), a.data(), b.data(), count);
  EXPECT_EQ(result, expected);
  kernel().combine(swapped.data(), b.data(), a.data(), count);
  EXPECT_EQ(swapped, expected) << "the operation does not commute";
}

TEST_P(ReduceKernelTest, WidenIsExact) {
  for (size_t count : Counts()) {
    const Buffer source = RandomElements(dtype(), count, 17 + count);
    Guarded from(source, 1), to(count * SizeOf(accumulator()), 3);
    kernel().widen(to.data(), from.data(), count);
    ASSERT_TRUE(to.intact()) << count;
    Buffer expected = source;
    if (dtype() != accumulator()) {
      expected.resize(to.size());
      for (size_t i = 0; i < count; ++i) {
        Put(expected.data(), i, WireToFloat(dtype(), At<uint16_t>(source.data(), i)));
      }
    }
    ASSERT_EQ(to.content(), expected) << count;
  }
}

TEST_P(ReduceKernelTest, FinishDividesMeansAndRoundsOnce) {
  const double divisor = op() == ReduceOp::kAvg ? 3.0 : 1.0;
  for (size_t count : Counts()) {
    const Buffer source = RandomElements(accumulator(), count, 29 + count);
    Buffer expected(count * SizeOf(dtype()));
    for (size_t i = 0; i < count; ++i) {
      if (accumulator() == DType::kFloat32) {
        float value = At<float>(source.data(), i);
        if (op() == ReduceOp::kAvg) value = Canonical(value / 3.0f);
        if (dtype() == DType::kFloat32) {
          Put(expected.data(), i, value);
        } else {
          Put(expected.data(), i, FloatToWire(dtype(), value));
        }
      } else if (accumulator() == DType::kFloat64 && op() == ReduceOp::kAvg) {
        Put(expected.data(), i, Canonical(At<double>(source.data(), i) / 3.0));
      } else {
        expected = source;
      }
    }
    Guarded from(source, 3), to(expected.size(), 1);
    kernel().finish(to.data(), from.data(), count, divisor);
    ASSERT_EQ(to.content(), expected) << count;
    ASSERT_TRUE(to.intact()) << count;
    kernel().finish(from.data(), from.data(), count, divisor);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), from.data())) << count << " in place";
  }
}

TEST_P(ReduceKernelTest, SameBitsAsPortable) {
  const ReduceKernel& portable = **GetReduceKernel(dtype(), op(), SimdLevel::kPortable);
  const size_t count = 30011;
  const Buffer a = RandomElements(dtype(), count, 5);
  const Buffer b = RandomElements(dtype(), count, 6);
  const Buffer partial = RandomElements(accumulator(), count, 7);
  const auto run = [&](const ReduceKernel& kernel) {
    Buffer combined(a.size()), sum(partial.size()), wide(partial.size()), finished(a.size());
    kernel.combine(combined.data(), a.data(), b.data(), count);
    kernel.accumulate(sum.data(), partial.data(), b.data(), count);
    kernel.widen(wide.data(), a.data(), count);
    kernel.finish(finished.data(), sum.data(), count, op() == ReduceOp::kAvg ? 7.0 : 1.0);
    return std::vector<Buffer>{combined, sum, wide, finished};
  };
  EXPECT_EQ(run(kernel()), run(portable));
}

std::vector<LevelDTypeOp> AllKernels() {
  std::vector<LevelDTypeOp> all;
  for (SimdLevel level : SupportedSimdLevels()) {
    for (DType dtype : kAllDTypes) {
      for (ReduceOp op : kAllReduceOps) {
        if (IsFloating(dtype) || op != ReduceOp::kAvg) all.push_back({level, dtype, op});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ReduceKernelTest, ::testing::ValuesIn(AllKernels()),
                         [](const auto& info) {
                           return std::string(NameOf(std::get<0>(info.param))) + "_" +
                                  std::string(NameOf(std::get<1>(info.param))) + "_" +
                                  std::string(NameOf(std::get<2>(info.param)));
                         });

class ReduceKernelLevelTest : public ::testing::TestWithParam<SimdLevel> {};

// 1 + 2^-9 + 2^-9 is 1 if every hop rounds to bfloat16 (8 bits), and 1 + 2^-8, a tie, rounded to
// even after one rounding; a third addend makes the difference visible.
TEST_P(ReduceKernelLevelTest, SixteenBitPartialSumsAreKeptInFloat32) {
  const ReduceKernel& kernel = **GetReduceKernel(DType::kBFloat16, ReduceOp::kSum, GetParam());
  const uint16_t one = FloatToBFloat16(1.0f), small = FloatToBFloat16(0x1p-9f);
  float partial;
  kernel.widen(&partial, &one, 1);
  for (int hop = 0; hop < 3; ++hop) kernel.accumulate(&partial, &partial, &small, 1);
  uint16_t once;
  kernel.finish(&once, &partial, 1, 1.0);
  EXPECT_EQ(BFloat16ToFloat(once), 1.0f + 0x1p-7f);
  uint16_t each_hop = one;
  for (int hop = 0; hop < 3; ++hop) kernel.combine(&each_hop, &each_hop, &small, 1);
  EXPECT_EQ(BFloat16ToFloat(each_hop), 1.0f);
}

// 60000 + 60000 overflows float16; their mean does not.
TEST_P(ReduceKernelLevelTest, MeanOfFloat16IsDividedBeforeItIsRounded) {
  const ReduceKernel& kernel = **GetReduceKernel(DType::kFloat16, ReduceOp::kAvg, GetParam());
  const uint16_t large = FloatToFloat16(60000.0f);
  float partial;
  kernel.widen(&partial, &large, 1);
  kernel.accumulate(&partial, &partial, &large, 1);
  uint16_t mean;
  kernel.finish(&mean, &partial, 1, 2.0);
  EXPECT_EQ(mean, large);
}

TEST_P(ReduceKernelLevelTest, IntegerSumsWrap) {
  const ReduceKernel& kernel = **GetReduceKernel(DType::kInt32, ReduceOp::kSum, GetParam());
  const int32_t largest = std::numeric_limits<int32_t>::max(), one = 1;
  int32_t sum;
  kernel.combine(&sum, &largest, &one, 1);
  EXPECT_EQ(sum, std::numeric_limits<int32_t>::min());
}

TEST_P(ReduceKernelLevelTest, NothingIsTouchedForCountZero) {
  for (DType dtype : kAllDTypes) {
    const ReduceKernel& kernel = **GetReduceKernel(dtype, ReduceOp::kSum, GetParam());
    kernel.widen(nullptr, nullptr, 0);
    kernel.accumulate(nullptr, nullptr, nullptr, 0);
    kernel.finish(nullptr, nullptr, 0, 1.0);
    kernel.combine(nullptr, nullptr, nullptr, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ReduceKernelLevelTest, ::testing::ValuesIn(SupportedSimdLevels()),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST(GetReduceKernelTest, MeanOfIntegersIsRefusedNamingBoth) {
  for (DType dtype : {DType::kInt32, DType::kInt64}) {
    EXPECT_THAT(GetReduceKernel(dtype, ReduceOp::kAvg),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(std::string(NameOf(dtype))), HasSubstr("avg"))));
  }
}

TEST(GetReduceKernelTest, WithoutALevelTheActiveOneIsTaken) {
  ASSERT_OK_AND_ASSIGN(const ReduceKernel* kernel,
                       GetReduceKernel(DType::kFloat32, ReduceOp::kSum));
  ASSERT_OK_AND_ASSIGN(const ReduceKernel* active,
                       GetReduceKernel(DType::kFloat32, ReduceOp::kSum, ActiveSimdLevel()));
  EXPECT_EQ(kernel, active);
}

}  // namespace
}  // namespace rz
