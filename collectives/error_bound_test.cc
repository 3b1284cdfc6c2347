// The error bounds of both numeric modes, for sums of 64 ranks by every algorithm, against the
// exact sum.
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/algorithm.h"
#include "collectives/chunk_layout.h"
#include "collectives/communicator.h"
#include "collectives/kernels/testing_sums.h"
#include "collectives/testing/sim_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/transport/sim/sim_world.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::kAllSumKinds;
using ::rz::testing::SimJob;
using ::rz::testing::SumKind;
using ::rz::testing::TestingSums;

constexpr int kWorld = 64;
constexpr int64_t kCount = 5 * kWorld + 3;
constexpr int kRoot = 7;

class CollectiveErrorBoundTest : public ::testing::TestWithParam<std::tuple<DType, SumKind>> {
 protected:
  // Elements of the sum that some rank holds wherever the algorithm leaves them.
  std::vector<uint16_t> SumBy(const AlgorithmTraits& traits, NumericMode mode) {
    CommunicatorOptions options;
    options.numeric_mode = mode;
    options.slice_bytes = 64;
    options.algorithms = absl::StrCat(std::string(NameOf(traits.collective)), ":",
                                      std::string(NameOf(traits.algorithm)));
    SimJob job(kWorld, {}, options);
    std::vector<std::vector<uint16_t>> recv(kWorld, std::vector<uint16_t>(kCount));
    EXPECT_THAT(
        job.Run(1,
                [&](int r, int) {
                  Communicator& comm = job.comm(r);
                  const void* const send = sums_.input(r).data();
                  void* const out = recv[r].data();
                  switch (traits.collective) {
                    case Collective::kReduce:
                      return comm.StartReduce(send, out, kCount, dtype(), ReduceOp::kSum,
                                              Rank(kRoot));
                    case Collective::kReduceScatter:
                      return comm.StartReduceScatter(send, out, kCount, dtype(), ReduceOp::kSum);
                    default:
                      return comm.StartAllReduce(send, out, kCount, dtype(), ReduceOp::kSum);
                  }
                }),
        IsOk());
    for (const absl::Status& result : job.results()) EXPECT_OK(result);
    if (traits.collective != Collective::kReduceScatter) return recv[kRoot];
    std::vector<uint16_t> whole;
    for (int r = 0; r < kWorld; ++r) {
      const auto own = static_cast<ptrdiff_t>(EvenSplit(kCount, kWorld, r).count);
      whole.insert(whole.end(), recv[r].begin(), recv[r].begin() + own);
    }
    return whole;
  }

  DType dtype() const { return std::get<0>(GetParam()); }

  const TestingSums sums_{std::get<1>(GetParam()), dtype(), kWorld, kCount};
};

TEST_P(CollectiveErrorBoundTest, DeterministicSumsRoundOnce) {
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    if (!IsReduction(traits.collective) || !traits.canonical) continue;
    SCOPED_TRACE(::testing::Message() << traits.collective << " by " << traits.algorithm);
    const std::vector<uint16_t> sum = SumBy(traits, NumericMode::kDeterministic);
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_LE(sums_.Error(i, sum[i]), sums_.BoundOfOneRounding(i, sum[i])) << "element " << i;
    }
  }
}

TEST_P(CollectiveErrorBoundTest, FastSumsRoundAtMostAtEveryHop) {
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    if (!IsReduction(traits.collective)) continue;
    SCOPED_TRACE(::testing::Message() << traits.collective << " by " << traits.algorithm);
    const std::vector<uint16_t> sum = SumBy(traits, NumericMode::kFast);
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_LE(sums_.Error(i, sum[i]), sums_.BoundOfEveryHop(i)) << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveErrorBoundTest,
                         ::testing::Combine(::testing::Values(DType::kBFloat16, DType::kFloat16),
                                            ::testing::ValuesIn(kAllSumKinds)),
                         [](const auto& info) {
                           return std::string(NameOf(std::get<0>(info.param))) + "_" +
                                  NameOf(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace rz
