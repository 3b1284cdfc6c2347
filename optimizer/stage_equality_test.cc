// ddp, naive and ZeRO-1 hold the same bits after the same steps: over algorithm, bucket size, order
// of delivery; and every byte, in memory and on the wire, is accounted for.
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;

const std::vector<ParamSpec>& HardParameters() {
  static const auto* specs = new std::vector<ParamSpec>{
      {"embedding", {13, 7}}, {"empty", {0, 4}}, {"scalar", {}}, {"three", {3}},
      {"matrix", {33, 31}},   {"prime", {997}},  {"none", {0}},
  };
  return *specs;
}

// Numbers between -1 and 1 that depend on all arguments (a round of SplitMix64).
float Noise(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  uint64_t x = ((a * 1000003 + b) * 1000003 + c) * 1000003 + d + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<float>(static_cast<int64_t>(x) >> 40) / static_cast<float>(1 << 23);
}

void FillParameters(size_t index, absl::Span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = Noise(99, 0, index, i);
}

void FillGradients(SimRanks& ranks, uint64_t step) {
  for (int rank = 0; rank < ranks.world(); ++rank) {
    const FlatLayout& layout = ranks.optimizer(rank).layout();
    for (size_t p = 0; p < layout.size(); ++p) {
      for (size_t i = 0; i < static_cast<size_t>(layout.range(p).count); ++i) {
        ranks.SetGradient(rank, p, i, Noise(step, static_cast<uint64_t>(rank), p, i));
      }
    }
  }
}

struct Variant {
  ZeroStage stage;
  const char* algorithms;
  int64_t bucket_size;
  uint64_t seed;
};

const Variant kVariants[] = {
    {ZeroStage::kDdp, "reduce_scatter:ring,all_reduce:ring", 500'000'000, 1},
    {ZeroStage::kDdp, "reduce_scatter:pairwise,all_reduce:pairwise", 700, 2},
    {ZeroStage::kDdp, "reduce_scatter:ring,all_reduce:ring", 1, 3},
    {ZeroStage::kNaive, "reduce_scatter:ring,all_reduce:ring", 500'000'000, 9},
    {ZeroStage::kNaive, "reduce_scatter:pairwise,all_reduce:pairwise", 700, 10},
    {ZeroStage::kOne, "reduce_scatter:ring,all_reduce:ring", 500'000'000, 4},
    {ZeroStage::kOne, "reduce_scatter:pairwise,all_reduce:pairwise", 500'000'000, 5},
    {ZeroStage::kOne, "reduce_scatter:ring,all_reduce:ring", 700, 6},
    {ZeroStage::kOne, "reduce_scatter:pairwise,all_reduce:pairwise", 1, 7},
    {ZeroStage::kOne, "", 1, 8},
};

// Bits of the states after some steps, and the norm of each, checking the books on the way.
void TrainAndCheckBooks(int world, DType dtype, const Variant& variant, int steps,
                        std::string* bits, std::vector<double>* norms) {
  ZeroConfig config;
  config.stage = variant.stage;
  config.dtype = dtype;
  config.tile_chunk = 64;
  config.reduce_bucket_size = variant.bucket_size;
  ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<SimRanks> ranks,
      SimRanks::Create(world, variant.algorithms, HardParameters(), config, nullptr, variant.seed));
  for (const absl::Status& status : ranks->Initialize(FillParameters)) ASSERT_OK(status);
  for (int step = 1; step <= steps; ++step) {
    FillGradients(*ranks, static_cast<uint64_t>(step));
    const auto reports = ranks->Step({0.01 / step});
    for (int rank = 0; rank < world; ++rank) {
      const absl::StatusOr<StepReport>& report = reports[static_cast<size_t>(rank)];
      ASSERT_OK(report.status());
      EXPECT_EQ(report->step, step);
      EXPECT_FALSE(report->skipped);
      EXPECT_EQ(report->norm, reports[0]->norm);
      ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks->optimizer(rank).ExpectedWire());
      EXPECT_EQ(report->payload_bytes, plan.payload_bytes()) << plan.explanation;
      EXPECT_EQ(report->control_bytes, plan.control_bytes);
    }
    norms->push_back(reports[0]->norm);
  }
  *bits = ranks->StateBits(0);
  for (int rank = 0; rank < world; ++rank) {
    EXPECT_EQ(ranks->StateBits(rank), *bits) << "rank " << rank << " differs from rank 0";
    const MemoryReport memory = ranks->optimizer(rank).Memory();
    EXPECT_TRUE(memory.Balances()) << RenderMemoryTable({&memory, 1});
    EXPECT_EQ(memory.other[1].now, 0) << "the initializer's scratch is still there";
  }
}

class StageEqualityTest : public ::testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(StageEqualityTest, SameBitsOverStageAlgorithmAndBucketSize) {
  const auto [world, dtype] = GetParam();
  std::string expected;
  std::vector<double> expected_norms;
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(::testing::Message() << "stage " << variant.stage << ", algorithms '"
                                      << variant.algorithms << "', bucket " << variant.bucket_size);
    std::string bits;
    std::vector<double> norms;
    ASSERT_NO_FATAL_FAILURE(TrainAndCheckBooks(world, dtype, variant, 3, &bits, &norms));
    if (expected.empty()) {
      expected = bits;
      expected_norms = norms;
    }
    EXPECT_TRUE(bits == expected) << "the states differ from the first variant's";
    EXPECT_EQ(norms, expected_norms);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, StageEqualityTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 5, 8),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16,
                                                              DType::kFloat16)),
                         [](const auto& info) {
                           return "N" + std::to_string(std::get<0>(info.param)) +
                                  std::string(NameOf(std::get<1>(info.param)));
                         });

TEST(StageEqualityTest, AnyOrderOfDeliveryGivesTheSameBits) {
  std::string expected;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::string bits;
    std::vector<double> norms;
    const Variant variant = {ZeroStage::kOne, kVariants[3].algorithms, 1, seed};
    ASSERT_NO_FATAL_FAILURE(TrainAndCheckBooks(4, DType::kBFloat16, variant, 1, &bits, &norms));
    if (expected.empty()) expected = bits;
    EXPECT_TRUE(bits == expected) << "seed " << seed;
  }
}

TEST(StageEqualityTest, SixtyFourRanks) {
  std::string ddp, sharded;
  std::vector<double> ddp_norms, sharded_norms;
  ASSERT_NO_FATAL_FAILURE(
      TrainAndCheckBooks(64, DType::kBFloat16, kVariants[0], 1, &ddp, &ddp_norms));
  ASSERT_NO_FATAL_FAILURE(
      TrainAndCheckBooks(64, DType::kBFloat16, kVariants[6], 1, &sharded, &sharded_norms));
  EXPECT_TRUE(ddp == sharded);
  EXPECT_EQ(ddp_norms, sharded_norms);
}

}  // namespace
}  // namespace rz
