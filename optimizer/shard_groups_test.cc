// Groups of ranks that hold a copy of the states each: what they compute, send and hold, and that
// all of them stay the same.
#include "optimizer/shard_groups.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ZeroStage kSharded[] = {ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree};
constexpr char kRing[] = "reduce_scatter:ring,all_reduce:ring";
constexpr char kPairwise[] = "reduce_scatter:pairwise,all_reduce:pairwise";
constexpr int64_t kWhole = 500'000'000;

struct Grouping {
  int world;
  int size;
};
constexpr Grouping kGroupings[] = {{4, 2}, {6, 2}, {6, 3}, {8, 2}, {8, 4}, {3, 1}};

std::string Text(const Grouping& g) {
  return absl::StrCat(g.world, " ranks in groups of ", g.size);
}

const std::vector<ParamSpec>& Parameters() {
  static const auto* specs = new std::vector<ParamSpec>{
      {"embedding", {13, 7}, 0}, {"empty", {0, 4}, 0},    {"scalar", {}, 1},
      {"three", {3}, 1},         {"matrix", {33, 31}, 2}, {"prime", {997}, 3},
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

// One whose sums and means over 2, 4 or 8 ranks are exact in every dtype.
float Exact(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return std::round(4 * Noise(a, b, c, d));
}

using Fill = float (*)(uint64_t step, uint64_t rank, uint64_t parameter, uint64_t element);

void FillGradients(SimRanks& ranks, uint64_t step, Fill fill) {
  for (int rank = 0; rank < ranks.world(); ++rank) {
    const FlatLayout& layout = ranks.optimizer(rank).layout();
    for (size_t p = 0; p < layout.size(); ++p) {
      for (size_t i = 0; i < static_cast<size_t>(layout.range(p).count); ++i) {
        ranks.SetGradient(rank, p, i, fill(step, static_cast<uint64_t>(rank), p, i));
      }
    }
  }
}

ZeroConfig Config(ZeroStage stage, DType dtype, int64_t group_size) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtype;
  config.shard_group_size = group_size;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 700;
  return config;
}

std::unique_ptr<SimRanks> MakeRanks(int world, const char* algorithms, const ZeroConfig& config,
                                    float first = 1, uint64_t seed = 1) {
  auto ranks = SimRanks::Create(world, algorithms, Parameters(), config, nullptr, seed);
  EXPECT_OK(ranks.status());
  for (const absl::Status& status :
       (*ranks)->Initialize([first](size_t index, absl::Span<float> values) {
         for (size_t i = 0; i < values.size(); ++i) values[i] = first * Noise(99, 0, index, i);
       })) {
    EXPECT_OK(status);
  }
  return *std::move(ranks);
}

// Takes so many steps, of all the config's micro-steps.
std::vector<StepReport> Train(SimRanks& ranks, int steps, Fill fill) {
  const int64_t micro_steps = ranks.optimizer(0).config().gradient_accumulation_steps;
  std::vector<StepReport> reports;
  for (int step = 0; step < steps; ++step) {
    for (int64_t micro = 0; micro < micro_steps; ++micro) {
      FillGradients(ranks, static_cast<uint64_t>(step * micro_steps + micro), fill);
      if (micro + 1 == micro_steps) break;
      for (const absl::Status& status : ranks.EndMicroStep()) EXPECT_OK(status);
    }
    reports.clear();
    for (const auto& report : ranks.Step({0.01})) {
      EXPECT_OK(report.status());
      if (report.ok()) reports.push_back(*report);
    }
  }
  return reports;
}

void ExpectGroupsEqual(SimRanks& ranks) {
  const std::string first = ranks.StateBits(0);
  for (int rank = 1; rank < ranks.world(); ++rank) {
    EXPECT_TRUE(ranks.StateBits(rank) == first) << "rank " << rank;
  }
}

TEST(ShardGroupsTest, AGroupOfAllRanksIsThePlainStage) {
  for (const ZeroStage stage : kSharded) {
    const auto plain = MakeRanks(3, "", Config(stage, DType::kBFloat16, kAllRanks));
    const auto grouped = MakeRanks(3, "", Config(stage, DType::kBFloat16, 3));
    Train(*plain, 3, Noise);
    Train(*grouped, 3, Noise);
    EXPECT_TRUE(plain->StateBits(1) == grouped->StateBits(1)) << "stage " << stage;
  }
}

TEST(ShardGroupsTest, AllGroupsHaveTheSameBitsOverStagesAlgorithmsBucketsAndOrders) {
  for (const Grouping& g : kGroupings) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      std::string expected;
      for (const ZeroStage stage : kSharded) {
        for (const int64_t bucket : {int64_t{1}, int64_t{700}, kWhole}) {
          SCOPED_TRACE(absl::StrCat(Text(g), ", stage ", std::string(NameOf(stage)), ", bucket ",
                                    bucket, ", ", std::string(NameOf(dtype))));
          ZeroConfig config = Config(stage, dtype, g.size);
          config.reduce_bucket_size = bucket;
          config.announce_gradients = bucket == 700;
          config.overlap_communication = bucket == 700;
          config.buckets_in_flight = bucket == 1 ? 2 : 4;
          const auto ranks = MakeRanks(g.world, bucket == 1 ? kRing : kPairwise, config, 1,
                                       static_cast<uint64_t>(bucket));
          ranks->set_order([](int rank, size_t parameters) {
            std::vector<size_t> order(parameters);
            std::iota(order.begin(), order.end(), size_t{0});
            std::mt19937_64 random(static_cast<uint64_t>(rank));
            std::shuffle(order.begin(), order.end(), random);
            return order;
          });
          Train(*ranks, 2, Noise);
          ExpectGroupsEqual(*ranks);
          if (expected.empty()) expected = ranks->StateBits(0);
          EXPECT_TRUE(ranks->StateBits(0) == expected);
        }
      }
    }
  }
}

TEST(ShardGroupsTest, WhereSumsAreExactGroupsGiveThePlainStagesBits) {
  for (const Grouping& g : {Grouping{4, 2}, Grouping{8, 2}, Grouping{8, 4}, Grouping{2, 1}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const ZeroStage stage : kSharded) {
        const auto plain = MakeRanks(g.world, "", Config(stage, dtype, kAllRanks));
        const auto grouped = MakeRanks(g.world, "", Config(stage, dtype, g.size));
        Train(*plain, 2, Exact);
        Train(*grouped, 2, Exact);
        EXPECT_TRUE(plain->StateBits(0) == grouped->StateBits(0)) << Text(g) << ", stage " << stage;
      }
    }
  }
}

// The mean, as a step of SGD from weights of 0 leaves it.
float Mean(SimRanks& ranks, size_t parameter, size_t i) {
  return -ranks.Parameter(0, parameter, i);
}

TEST(ShardGroupsTest, TheMeanIsThatOfThePlainStageWithinTheRoundingOfTheFormats) {
  for (const Grouping& g : kGroupings) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      SCOPED_TRACE(absl::StrCat(Text(g), ", ", std::string(NameOf(dtype))));
      ZeroConfig config = Config(ZeroStage::kThree, dtype, g.size);
      config.optimizer = DefaultsOf(OptimizerKind::kSgd);
      config.optimizer.learning_rate = 1;
      const auto grouped = MakeRanks(g.world, "", config, 0);
      config.shard_group_size = kAllRanks;
      const auto plain = MakeRanks(g.world, "", config, 0);
      for (SimRanks* ranks : {grouped.get(), plain.get()}) {
        FillGradients(*ranks, 0, Noise);
        for (const auto& report : ranks->Step({1.0})) ASSERT_OK(report.status());
      }
      // In the accumulator: N products and additions in a group and over groups, and the N - 1 of
      // the plain stage and its division. In the wire's format: a group's mean and the sum of
      // these; and the one of the plain stage; where it is not the accumulator's.
      const double fine = std::ldexp(1.0, -24);
      const double coarse = dtype == DType::kFloat32    ? 0
                            : dtype == DType::kBFloat16 ? std::ldexp(1.0, -8)
                                                        : std::ldexp(1.0, -11);
      const double smallest = dtype == DType::kFloat16 ? std::ldexp(1.0, -25) : 0;
      for (size_t p = 0; p < Parameters().size(); ++p) {
        const auto count = static_cast<size_t>(plain->optimizer(0).layout().range(p).count);
        for (size_t i = 0; i < count; ++i) {
          double magnitude = 0;
          for (int rank = 0; rank < g.world; ++rank) {
            magnitude += std::abs(Noise(0, static_cast<uint64_t>(rank), p, i)) / g.world;
          }
          const double bound =
              1.01 * magnitude * (3 * coarse + (2 * g.world + 3) * fine) + smallest * (g.world + 2);
          ASSERT_NEAR(Mean(*grouped, p, i), Mean(*plain, p, i), bound) << p << " " << i;
        }
      }
    }
  }
}

TEST(ShardGroupsTest, ASumIsTheSumOverAllRanks) {
  ZeroConfig config = Config(ZeroStage::kTwo, DType::kFloat32, 2);
  config.optimizer = DefaultsOf(OptimizerKind::kSgd);
  config.reduction = GradientReduction::kSum;
  const auto ranks = MakeRanks(4, "", config, 0);
  FillGradients(*ranks, 0, Exact);
  for (const auto& report : ranks->Step({1.0})) ASSERT_OK(report.status());
  for (size_t i = 0; i < 997; ++i) {
    float sum = 0;
    for (uint64_t rank = 0; rank < 4; ++rank) sum += Exact(0, rank, 5, i);
    ASSERT_EQ(Mean(*ranks, 5, i), sum) << i;
  }
}

TEST(ShardGroupsTest, EveryByteIsPlannedWithinAndBetweenGroupsAndInMemory) {
  for (const Grouping& g : kGroupings) {
    for (const ZeroStage stage : kSharded) {
      for (const char* algorithms : {kRing, kPairwise}) {
        SCOPED_TRACE(
            absl::StrCat(Text(g), ", stage ", std::string(NameOf(stage)), ", ", algorithms));
        const auto ranks = MakeRanks(g.world, algorithms, Config(stage, DType::kBFloat16, g.size));
        const std::vector<StepReport> reports = Train(*ranks, 2, Noise);
        for (int rank = 0; rank < g.world; ++rank) {
          const ZeroOptimizer& optimizer = ranks->optimizer(rank);
          ASSERT_OK_AND_ASSIGN(const WirePlan plan, optimizer.ExpectedWire());
          const StepReport& report = reports[static_cast<size_t>(rank)];
          EXPECT_EQ(report.payload_bytes, plan.payload_bytes()) << plan.explanation;
          EXPECT_EQ(report.between_groups_bytes, plan.between_bytes) << plan.explanation;
          EXPECT_EQ(report.control_bytes, plan.control_bytes);
          EXPECT_GT(plan.between_bytes, 0);
          const MemoryReport memory = optimizer.Memory();
          EXPECT_TRUE(memory.Balances());
          EXPECT_EQ(memory.shape.world, g.size);
          EXPECT_EQ(memory.shape.groups, g.world / g.size);
          EXPECT_EQ(optimizer.partition().world(), g.size);
        }
      }
    }
  }
}

TEST(ShardGroupsTest, MicroStepsAddUpToTheSameBitsInAllStages) {
  for (const AccumulationPolicy policy : {AccumulationPolicy::kLocal, AccumulationPolicy::kShard}) {
    std::string expected;
    for (const ZeroStage stage : kSharded) {
      ZeroConfig config = Config(stage, DType::kBFloat16, 2);
      config.gradient_accumulation_steps = 3;
      config.accumulation = policy;
      const auto ranks = MakeRanks(6, "", config);
      const std::vector<StepReport> reports = Train(*ranks, 2, Noise);
      ExpectGroupsEqual(*ranks);
      if (expected.empty()) expected = ranks->StateBits(0);
      EXPECT_TRUE(ranks->StateBits(0) == expected) << "stage " << stage;
      ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks->optimizer(5).ExpectedWire());
      EXPECT_EQ(reports[5].payload_bytes, plan.payload_bytes()) << plan.explanation;
      EXPECT_TRUE(ranks->optimizer(5).Memory().Balances());
    }
  }
}

TEST(ShardGroupsTest, TheNormIsOfOneCopyAndClipsAllGroupsAlike) {
  for (const ZeroStage stage : kSharded) {
    ZeroConfig config = Config(stage, DType::kFloat32, kAllRanks);
    config.gradient_clipping = 0.5;
    const auto plain = MakeRanks(4, "", config);
    config.shard_group_size = 2;
    const auto grouped = MakeRanks(4, "", config);
    const StepReport expected = Train(*plain, 1, Exact)[0];
    for (const StepReport& report : Train(*grouped, 1, Exact)) {
      EXPECT_NEAR(report.norm, expected.norm, 1e-12 * expected.norm);
      EXPECT_EQ(report.clipped_norm, Train(*MakeRanks(4, "", config), 1, Exact)[0].clipped_norm);
      EXPECT_NEAR(report.clipped_norm, 0.5, 1e-6);
    }
    ExpectGroupsEqual(*grouped);
  }
}

TEST(ShardGroupsTest, WhatIsNotFiniteInOneGroupSkipsTheStepInAllAndLowersTheScale) {
  for (const ZeroStage stage : kSharded) {
    ZeroConfig config = Config(stage, DType::kFloat16, 2);
    config.announce_gradients = true;
    config.loss_scale = DynamicLossScale();
    config.loss_scale.hysteresis = 1;
    const auto ranks = MakeRanks(6, "", config);
    const std::string before = ranks->StateBits(0);
    FillGradients(*ranks, 0, Exact);
    ranks->SetGradient(3, 4, 17, std::numeric_limits<float>::infinity());
    for (const auto& report : ranks->Step({0.1})) {
      ASSERT_OK(report.status());
      EXPECT_TRUE(report->skipped);
      EXPECT_EQ(report->non_finite_count, 1);
      EXPECT_EQ(report->first_non_finite_parameter, "matrix");
      EXPECT_THAT(report->non_finite_cause, HasSubstr("rank 3's gradient of matrix"));
    }
    for (int rank = 0; rank < 6; ++rank) {
      EXPECT_EQ(ranks->optimizer(rank).loss_scale(), config.loss_scale.scale / 2);
    }
    EXPECT_TRUE(ranks->StateBits(5) == before);
    Train(*ranks, 1, Exact);
    ExpectGroupsEqual(*ranks);
  }
}

TEST(ShardGroupsTest, ARankThatDiesEndsAllGroups) {
  for (const ZeroStage stage : kSharded) {
    const auto ranks = MakeRanks(6, "", Config(stage, DType::kFloat32, 2));
    const std::string before = ranks->StateBits(0);
    FillGradients(*ranks, 0, Noise);
    ranks->Kill(5);
    (void)ranks->Step({0.1});
    // Those who work with it have failed: 4 is of its group, 1 and 3 hold the same shard. Their
    // processes end, and with them those of the others.
    for (const int neighbour : {1, 3, 4}) {
      EXPECT_FALSE(ranks->optimizer(neighbour).Step({}).ok());
      EXPECT_FALSE(ranks->communicator(neighbour).status().ok())
          << neighbour << ", stage " << stage;
      ranks->Kill(neighbour);
    }
    (void)ranks->PollAll();
    (void)ranks->Gather(0, Pass::kForward);
    for (const int survivor : {0, 2}) {
      const absl::Status cause = ranks->communicator(survivor).status();
      EXPECT_THAT(cause, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank")))
          << "rank " << survivor << ", stage " << stage;
      EXPECT_FALSE(ranks->optimizer(survivor).Step({}).ok());
      EXPECT_FALSE(ranks->optimizer(survivor).Gather(0, Pass::kForward).ok());
    }
    EXPECT_TRUE(ranks->StateBits(0) == before);
  }
}

TEST(ShardGroupsTest, DestroyedWithReductionsUnderWayItLetsGo) {
  for (const ZeroStage stage : {ZeroStage::kTwo, ZeroStage::kThree}) {
    const auto ranks = MakeRanks(4, "", Config(stage, DType::kFloat32, 2));
    FillGradients(*ranks, 0, Noise);
    // What one group has reduced waits for the other.
    for (const int rank : {0, 1}) {
      ASSERT_OK(ranks->optimizer(rank).StartAddGradient(5, std::vector<float>(997)));
      (void)ranks->optimizer(rank).Poll();
      ASSERT_OK(ranks->optimizer(rank).Release(3, Pass::kBackward));
    }
    for (int i = 0; i < 50; ++i) {
      for (const int rank : {0, 1}) (void)ranks->optimizer(rank).Poll();
    }
    ranks->Destroy(0);
    EXPECT_THAT(ranks->communicator(0).status(),
                StatusIs(absl::StatusCode::kCancelled, HasSubstr("destroyed")));
  }
}

TEST(ShardGroupsTest, ASizeThatDoesNotDivideTheRanksNamesBoth) {
  for (const int64_t size : {4, 12}) {
    EXPECT_THAT(
        SimRanks::Create(6, "", Parameters(), Config(ZeroStage::kOne, DType::kFloat32, size)),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr(absl::StrCat("shard_group_size is ", size)),
                       HasSubstr("the 6 ranks"))));
  }
}

TEST(ShardGroupsTest, GroupsThatCannotBeAreErrors) {
  for (const ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive}) {
    EXPECT_THAT(SimRanks::Create(4, "", Parameters(), Config(stage, DType::kFloat32, 2)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("knows no groups")));
  }
  EXPECT_THAT(SimRanks::Create(4, "", Parameters(), Config(ZeroStage::kOne, DType::kFloat32, -2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shard_group_size is -2")));
  // No host is known in a simulation.
  EXPECT_THAT(
      SimRanks::Create(4, "", Parameters(), Config(ZeroStage::kOne, DType::kFloat32, kRanksOfHost)),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ranks of a host")));
}

}  // namespace
}  // namespace rz
