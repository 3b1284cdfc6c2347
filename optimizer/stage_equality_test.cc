// All stages hold the same bits after the same steps: over algorithm, bucket size, order of
// delivery and of announcement; and every byte, in memory and on the wire, is accounted for.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
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
      {"embedding", {13, 7}, 0}, {"empty", {0, 4}, 0}, {"scalar", {}, 1}, {"three", {3}, 1},
      {"matrix", {33, 31}, 2},   {"prime", {997}, 3},  {"none", {0}, 4},
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

// Gradients of a micro-step. Now and then a rank has none for a parameter, and the last rank has
// none for the last two units.
void FillGradients(SimRanks& ranks, uint64_t micro_step) {
  for (int rank = 0; rank < ranks.world(); ++rank) {
    const ZeroOptimizer& optimizer = ranks.optimizer(rank);
    for (size_t p = 0; p < optimizer.layout().size(); ++p) {
      const bool unused =
          (micro_step + p + static_cast<uint64_t>(rank)) % 5 == 0 ||
          (rank > 0 && rank == ranks.world() - 1 && optimizer.layout().spec(p).unit >= 3);
      if (unused && AnnouncesGradients(optimizer.config())) continue;
      for (size_t i = 0; i < static_cast<size_t>(optimizer.layout().range(p).count); ++i) {
        ranks.SetGradient(rank, p, i,
                          unused ? 0 : Noise(micro_step, static_cast<uint64_t>(rank), p, i));
      }
    }
  }
}

constexpr char kRing[] = "reduce_scatter:ring,all_reduce:ring";
constexpr char kPairwise[] = "reduce_scatter:pairwise,all_reduce:pairwise";
constexpr const char* kShared = SimRanks::kSharedMemory;

enum class Announcement { kNone, kBackward, kForward, kShuffled };

struct Variant {
  ZeroStage stage;
  const char* algorithms;
  int64_t bucket_size;
  Announcement announcement = Announcement::kNone;
  bool overlap = false;
  int buckets_in_flight = 4;
  int64_t max_reuse_distance = 0;
  int64_t persistence = 0;
  int64_t max_live = 1'000'000'000;
  uint64_t seed = 1;
  bool fused = true;  // of stage 1, where ranks share memory
  bool behind_forward = false;
};

constexpr Variant BehindForward(Variant variant) {
  variant.behind_forward = true;
  return variant;
}

std::ostream& operator<<(std::ostream& os, const Variant& v) {
  return os << "stage " << v.stage << ", algorithms '" << v.algorithms << "', bucket "
            << v.bucket_size << ", announcement " << static_cast<int>(v.announcement)
            << ", overlap " << v.overlap << ", in flight " << v.buckets_in_flight << ", reuse "
            << v.max_reuse_distance << ", persistence " << v.persistence << ", fused " << v.fused
            << ", behind forward " << v.behind_forward;
}

constexpr int64_t kWhole = 500'000'000;

const Variant kViewed[] = {
    {ZeroStage::kDdp, kRing, kWhole},
    {ZeroStage::kDdp, kPairwise, 700},
    {ZeroStage::kDdp, kRing, 1},
    {ZeroStage::kNaive, kRing, kWhole},
    {ZeroStage::kNaive, kPairwise, 700},
    {ZeroStage::kOne, kRing, kWhole},
    {ZeroStage::kOne, kPairwise, kWhole},
    {ZeroStage::kOne, kRing, 700},
    {ZeroStage::kOne, kPairwise, 1},
    {ZeroStage::kOne, "", 1},
    {ZeroStage::kDdp, kShared, 700},
    {ZeroStage::kNaive, kShared, 1},
    {ZeroStage::kOne, kShared, kWhole},
    {ZeroStage::kOne, kShared, 700},
    {.stage = ZeroStage::kOne, .algorithms = kShared, .bucket_size = 1, .fused = false},
};

const Variant kAnnounced[] = {
    {ZeroStage::kDdp, kRing, 700, Announcement::kBackward},
    {ZeroStage::kDdp, kPairwise, 1, Announcement::kShuffled, true},
    {ZeroStage::kNaive, kRing, 1, Announcement::kForward, true, 1},
    {ZeroStage::kOne, kPairwise, 1, Announcement::kBackward, true},
    {ZeroStage::kOne, kRing, kWhole, Announcement::kShuffled, true},
    {ZeroStage::kOne, kShared, 1, Announcement::kShuffled, true},
    {ZeroStage::kTwo, kShared, 700, Announcement::kBackward},
    {ZeroStage::kThree, kShared, 1, Announcement::kBackward},
    {ZeroStage::kTwo, kRing, kWhole, Announcement::kBackward},
    {ZeroStage::kTwo, kPairwise, 700, Announcement::kForward},
    {ZeroStage::kTwo, kRing, 1, Announcement::kShuffled},
    {ZeroStage::kTwo, kPairwise, 1, Announcement::kBackward, true, 1},
    {ZeroStage::kTwo, "", 1, Announcement::kShuffled, false, 2},
    BehindForward({ZeroStage::kDdp, kRing, 1, Announcement::kBackward, true}),
    BehindForward({ZeroStage::kNaive, kRing, 700, Announcement::kBackward, true}),
    BehindForward({ZeroStage::kOne, kPairwise, 1, Announcement::kBackward, true, 1}),
    BehindForward({ZeroStage::kOne, kRing, kWhole, Announcement::kShuffled}),
    BehindForward({ZeroStage::kOne, kShared, 1, Announcement::kBackward, true}),
    BehindForward({ZeroStage::kTwo, kRing, 1, Announcement::kShuffled}),
    BehindForward({ZeroStage::kThree, kRing, 1, Announcement::kBackward}),
    {ZeroStage::kThree, kRing, kWhole, Announcement::kBackward},
    {ZeroStage::kThree, kPairwise, 700, Announcement::kForward},
    {ZeroStage::kThree, kRing, 1, Announcement::kShuffled, false, 1},
    {ZeroStage::kThree, kPairwise, 1, Announcement::kBackward, false, 4, kWhole},
    {ZeroStage::kThree, kRing, 700, Announcement::kBackward, false, 4, 500},
    {ZeroStage::kThree, kRing, 1, Announcement::kShuffled, true, 2, 0, 800},
    {ZeroStage::kThree, "", 1, Announcement::kBackward, false, 4, kWhole, kWhole},
    {ZeroStage::kThree, kPairwise, 1, Announcement::kBackward, false, 4, 0, 0, 1},
};

ZeroConfig ConfigOf(const Variant& variant, DType dtype) {
  ZeroConfig config;
  config.stage = variant.stage;
  config.dtype = dtype;
  config.tile_chunk = 64;
  config.reduce_bucket_size = variant.bucket_size;
  config.announce_gradients = variant.announcement != Announcement::kNone;
  config.overlap_communication = variant.overlap;
  config.buckets_in_flight = variant.buckets_in_flight;
  config.max_reuse_distance = variant.max_reuse_distance;
  config.param_persistence_threshold = variant.persistence;
  config.max_live_parameters = variant.max_live;
  config.fuse_step = variant.fused;
  config.gather_behind_forward = variant.behind_forward;
  return config;
}

SimRanks::Order OrderOf(Announcement announcement, uint64_t seed) {
  return [announcement, seed](int rank, size_t parameters) {
    std::vector<size_t> order(parameters);
    std::iota(order.begin(), order.end(), size_t{0});
    if (announcement == Announcement::kBackward) std::reverse(order.begin(), order.end());
    std::mt19937_64 random(seed + 100 * static_cast<uint64_t>(rank));
    if (announcement == Announcement::kShuffled) std::shuffle(order.begin(), order.end(), random);
    return order;
  };
}

// What may be accumulated over micro-steps.
struct Accumulation {
  int64_t micro_steps = 1;
  AccumulationPolicy policy = AccumulationPolicy::kLocal;
};

void CheckReports(SimRanks& ranks, const std::vector<absl::StatusOr<StepReport>>& reports,
                  int step) {
  for (int rank = 0; rank < ranks.world(); ++rank) {
    const absl::StatusOr<StepReport>& report = reports[static_cast<size_t>(rank)];
    ASSERT_OK(report.status());
    EXPECT_EQ(report->step, step);
    EXPECT_FALSE(report->skipped);
    EXPECT_EQ(report->norm, reports[0]->norm);
    ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks.optimizer(rank).ExpectedWire());
    EXPECT_EQ(report->payload_bytes, plan.payload_bytes()) << plan.explanation;
    EXPECT_EQ(report->control_bytes, plan.control_bytes);
  }
}

struct Trained {
  std::string bits;
  std::vector<double> norms;
};

// Bits of the states after some steps, and the norm of each, checking the books on the way.
void TrainAndCheckBooks(int world, DType dtype, const Variant& variant, Accumulation accumulation,
                        int steps, Trained* trained) {
  SCOPED_TRACE(variant);
  ZeroConfig config = ConfigOf(variant, dtype);
  config.gradient_accumulation_steps = accumulation.micro_steps;
  config.accumulation = accumulation.policy;
  ASSERT_OK_AND_ASSIGN(
      std::unique_ptr<SimRanks> ranks,
      SimRanks::Create(world, variant.algorithms, HardParameters(), config, nullptr, variant.seed));
  for (const absl::Status& status : ranks->Initialize(FillParameters)) ASSERT_OK(status);
  ranks->set_order(OrderOf(variant.announcement, variant.seed));
  uint64_t micro_step = 0;
  for (int step = 1; step <= steps; ++step) {
    for (int64_t i = 1; i < accumulation.micro_steps; ++i) {
      FillGradients(*ranks, ++micro_step);
      for (const absl::Status& status : ranks->EndMicroStep()) ASSERT_OK(status);
    }
    FillGradients(*ranks, ++micro_step);
    const auto reports = ranks->Step({0.01 / step});
    ASSERT_NO_FATAL_FAILURE(CheckReports(*ranks, reports, step));
    trained->norms.push_back(reports[0]->norm);
  }
  trained->bits = ranks->StateBits(0);
  for (int rank = 0; rank < world; ++rank) {
    EXPECT_EQ(ranks->StateBits(rank), trained->bits) << "rank " << rank << " differs from rank 0";
    const MemoryReport memory = ranks->optimizer(rank).Memory();
    EXPECT_TRUE(memory.Balances()) << RenderMemoryTable({&memory, 1});
    EXPECT_EQ(memory.other[3].now, 0) << "the initializer's scratch is still there";
  }
}

// Trains with each variant, on top of what is expected where that is something.
void ExpectSameBits(int world, DType dtype, absl::Span<const Variant> variants,
                    Accumulation accumulation, int steps, Trained* expected) {
  for (const Variant& variant : variants) {
    Trained trained;
    ASSERT_NO_FATAL_FAILURE(
        TrainAndCheckBooks(world, dtype, variant, accumulation, steps, &trained));
    if (expected->bits.empty()) *expected = trained;
    EXPECT_TRUE(trained.bits == expected->bits) << "the states differ: " << variant;
    EXPECT_EQ(trained.norms, expected->norms) << variant;
  }
}

class StageEqualityTest : public ::testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(StageEqualityTest, SameBitsOverStageBucketAlgorithmAndAnnouncement) {
  const auto [world, dtype] = GetParam();
  Trained expected;
  ASSERT_NO_FATAL_FAILURE(ExpectSameBits(world, dtype, kViewed, {}, 3, &expected));
  ExpectSameBits(world, dtype, kAnnounced, {}, 3, &expected);
}

TEST_P(StageEqualityTest, SameBitsForEachPolicyOfAccumulation) {
  const auto [world, dtype] = GetParam();
  for (const AccumulationPolicy policy : {AccumulationPolicy::kLocal, AccumulationPolicy::kShard}) {
    SCOPED_TRACE(policy == AccumulationPolicy::kLocal ? "local" : "shard");
    Trained expected;
    ASSERT_NO_FATAL_FAILURE(ExpectSameBits(world, dtype, kAnnounced, {3, policy}, 2, &expected));
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
  Trained expected;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Variant one = {ZeroStage::kOne, kRing, 1};
    Variant two = {ZeroStage::kTwo, kRing, 1, Announcement::kShuffled};
    Variant three = {ZeroStage::kThree, kRing, 1, Announcement::kShuffled};
    Variant behind = BehindForward({ZeroStage::kOne, kRing, 1, Announcement::kShuffled, true});
    one.seed = two.seed = three.seed = behind.seed = seed;
    ASSERT_NO_FATAL_FAILURE(
        ExpectSameBits(4, DType::kBFloat16, {one, two, three, behind}, {}, 2, &expected));
  }
}

TEST(StageEqualityTest, SixtyFourRanks) {
  Trained expected;
  ExpectSameBits(64, DType::kBFloat16,
                 {{ZeroStage::kDdp, kRing, kWhole},
                  {ZeroStage::kOne, kPairwise, kWhole},
                  {ZeroStage::kThree, kPairwise, 1, Announcement::kBackward}},
                 {}, 1, &expected);
}

// Rounding apart: micro-steps of 8 samples each against one step of all 32.
TEST(StageEqualityTest, FourMicroStepsOfEightAreOneOfThirtyTwo) {
  constexpr int kSamples = 32;
  for (const ZeroStage stage :
       {ZeroStage::kDdp, ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree}) {
    for (const AccumulationPolicy policy :
         {AccumulationPolicy::kLocal, AccumulationPolicy::kShard}) {
      std::vector<double> norms;
      for (const int micro_steps : {1, 4}) {
        ZeroConfig config = ConfigOf({stage, kRing, 1, Announcement::kBackward}, DType::kFloat32);
        config.gradient_accumulation_steps = micro_steps;
        config.accumulation = policy;
        ASSERT_OK_AND_ASSIGN(std::unique_ptr<SimRanks> ranks,
                             SimRanks::Create(2, kRing, {{"w", {300}}}, config));
        for (const absl::Status& status : ranks->Initialize(FillParameters)) ASSERT_OK(status);
        for (int micro_step = 0; micro_step < micro_steps; ++micro_step) {
          for (size_t i = 0; i < 300; ++i) {
            double sum[2] = {0, 0};
            for (int s = micro_step * kSamples / micro_steps;
                 s < (micro_step + 1) * kSamples / micro_steps; ++s) {
              sum[s % 2] += Noise(7, static_cast<uint64_t>(s), 0, i) * GradientScale(2, kSamples);
            }
            for (int rank : {0, 1}) {
              ranks->SetGradient(rank, 0, i, static_cast<float>(sum[rank]));
            }
          }
          if (micro_step + 1 < micro_steps) {
            for (const absl::Status& status : ranks->EndMicroStep()) ASSERT_OK(status);
          }
        }
        const auto reports = ranks->Step({0.1});
        ASSERT_OK(reports[1].status());
        norms.push_back(reports[1]->norm);
      }
      EXPECT_NEAR(norms[1] / norms[0], 1, 1e-6) << "stage " << stage;
    }
  }
}

}  // namespace
}  // namespace rz
