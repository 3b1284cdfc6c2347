// The error bounds that reduce_kernel.h states, for sums of 64 ranks, against the exact sum.
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/kernels/reduce_kernel.h"
#include "collectives/kernels/testing_sums.h"
#include "gmock/gmock.h"
#include "runtime/base/simd_level.h"

namespace rz {
namespace {

using ::rz::testing::kAllSumKinds;
using ::rz::testing::SumKind;
using ::rz::testing::TestingSums;

constexpr int kRanks = 64;
constexpr size_t kCount = 4099;

class ErrorBoundTest : public ::testing::TestWithParam<std::tuple<SimdLevel, DType, SumKind>> {
 protected:
  const ReduceKernel& kernel() const {
    return **GetReduceKernel(std::get<1>(GetParam()), ReduceOp::kSum, std::get<0>(GetParam()));
  }

  std::vector<uint16_t> SumWithOneRounding() const {
    std::vector<float> partial(kCount);
    kernel().widen(partial.data(), sums_.input(0).data(), kCount);
    for (int rank = 1; rank < kRanks; ++rank) {
      kernel().accumulate(partial.data(), partial.data(), sums_.input(rank).data(), kCount);
    }
    std::vector<uint16_t> sum(kCount);
    kernel().finish(sum.data(), partial.data(), kCount, 1.0);
    return sum;
  }

  std::vector<uint16_t> SumRoundedAtEveryHop() const {
    std::vector<uint16_t> sum = sums_.input(0);
    for (int rank = 1; rank < kRanks; ++rank) {
      kernel().combine(sum.data(), sum.data(), sums_.input(rank).data(), kCount);
    }
    return sum;
  }

  const TestingSums sums_{std::get<2>(GetParam()), std::get<1>(GetParam()), kRanks, kCount};
};

TEST_P(ErrorBoundTest, SumWithOneRoundingIsWithinHalfAnUlpAndTheErrorOfFloat32) {
  const std::vector<uint16_t> sum = SumWithOneRounding();
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_LE(sums_.Error(i, sum[i]), sums_.BoundOfOneRounding(i, sum[i])) << "element " << i;
  }
}

TEST_P(ErrorBoundTest, SumRoundedAtEveryHopIsWithinTheBoundOfFastMode) {
  const std::vector<uint16_t> sum = SumRoundedAtEveryHop();
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_LE(sums_.Error(i, sum[i]), sums_.BoundOfEveryHop(i)) << "element " << i;
  }
}

// The first bound tells the two apart: a sum that rounds at every hop breaks it.
TEST_P(ErrorBoundTest, RoundingAtEveryHopBreaksTheBoundOfOneRounding) {
  const std::vector<uint16_t> sum = SumRoundedAtEveryHop();
  size_t broken = 0;
  for (size_t i = 0; i < kCount; ++i) {
    if (sums_.Error(i, sum[i]) > sums_.BoundOfOneRounding(i, sum[i])) ++broken;
  }
  EXPECT_GT(broken, kCount / 10);
}

INSTANTIATE_TEST_SUITE_P(All, ErrorBoundTest,
                         ::testing::Combine(::testing::ValuesIn(SupportedSimdLevels()),
                                            ::testing::Values(DType::kBFloat16, DType::kFloat16),
                                            ::testing::ValuesIn(kAllSumKinds)),
                         [](const auto& info) {
                           return std::string(NameOf(std::get<0>(info.param))) + "_" +
                                  std::string(NameOf(std::get<1>(info.param))) + "_" +
                                  NameOf(std::get<2>(info.param));
                         });

}  // namespace
}  // namespace rz
