// What announced gradients and gathered parameters promise: memory, misuse, orders, faults.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
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
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne,
                                 ZeroStage::kTwo, ZeroStage::kThree};

// Three units of 320, 160 and 32 elements without padding on 1 or 2 ranks.
const std::vector<ParamSpec>& Specs() {
  static const auto* specs = new std::vector<ParamSpec>{
      {"a.weight", {256}, 0}, {"a.bias", {64}, 0}, {"b.weight", {160}, 1}, {"c", {5}, 2}};
  return *specs;
}

ZeroConfig Config(ZeroStage stage, DType dtype = DType::kFloat32) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtype;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 1;
  config.announce_gradients = true;
  return config;
}

float Initial(size_t index, size_t i) {
  return static_cast<float>(index + 1) + 0.001f * static_cast<float>(i);
}

std::unique_ptr<SimRanks> MakeRanks(int world, const ZeroConfig& config) {
  auto ranks = SimRanks::Create(world, "", Specs(), config);
  EXPECT_OK(ranks.status());
  const auto initializer = [](size_t index, absl::Span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = Initial(index, i);
  };
  for (const absl::Status& status : (*ranks)->Initialize(initializer)) EXPECT_OK(status);
  return *std::move(ranks);
}

void SetGradients(SimRanks& ranks, float value) {
  for (int rank = 0; rank < ranks.world(); ++rank) {
    for (size_t p = 0; p < Specs().size(); ++p) {
      for (size_t i = 0; i < static_cast<size_t>(Specs()[p].shape[0]); ++i) {
        ranks.SetGradient(rank, p, i, value);
      }
    }
  }
}

int64_t Bytes(const MemoryReport& report, MemoryTag tag, bool peak = false) {
  for (size_t i = 0; i < kModelStates.size(); ++i) {
    if (kModelStates[i] == tag) return (*report.measured)[i];
  }
  for (const OtherMemory& other : report.other) {
    if (other.tag == tag) return peak ? other.peak : other.now;
  }
  return -1;
}

TEST(ShardedStagesTest, GradientsAndParametersAreHeldAsShards) {
  constexpr int kWorld = 2;
  constexpr int64_t kElements = 320 + 192 + 64;  // with padding to 64
  for (const ZeroStage stage : kStages) {
    SCOPED_TRACE(stage);
    ZeroConfig config = Config(stage, DType::kBFloat16);
    config.buckets_in_flight = 2;
    const auto ranks = MakeRanks(kWorld, config);
    for (int step = 0; step < 3; ++step) {
      SetGradients(*ranks, 0.5f);
      ASSERT_OK(ranks->Step({0.1})[1].status());
    }
    const MemoryReport report = ranks->optimizer(1).Memory();
    EXPECT_TRUE(report.Balances()) << RenderMemoryTable({&report, 1});
    const bool two = stage == ZeroStage::kTwo, three = stage == ZeroStage::kThree;
    EXPECT_EQ(Bytes(report, MemoryTag::kGradients), 2 * kElements / (two || three ? kWorld : 1));
    EXPECT_EQ(Bytes(report, MemoryTag::kParameters), 2 * kElements / (three ? kWorld : 1));
    // Buckets of a tile: three of them, or two units of at most five.
    const int64_t pool = two ? 3 : 9;
    if (two || three) {
      EXPECT_EQ(Bytes(report, MemoryTag::kBucket, true), pool * 64 * 2);
    }
    // The first unit beside the second.
    if (three) {
      EXPECT_LE(Bytes(report, MemoryTag::kGathered, true), 2 * (320 + 192 + 64));
    }
    EXPECT_TRUE(ranks->optimizer(1).Grads<uint16_t>(0).empty());
    EXPECT_EQ(ranks->optimizer(1).Params<uint16_t>(0).empty(), three);
  }
}

TEST(ShardedStagesTest, NaiveSendsHalfMoreThanStageOneAndThreeAsMuchAsNaive) {
  std::vector<int64_t> payload;
  for (const ZeroStage stage : kStages) {
    const auto ranks = MakeRanks(2, Config(stage));
    SetGradients(*ranks, 1);
    const auto reports = ranks->Step({0.1});
    ASSERT_OK(reports[0].status());
    payload.push_back(reports[0]->payload_bytes);
    ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks->optimizer(0).ExpectedWire());
    EXPECT_EQ(reports[0]->payload_bytes, plan.payload_bytes());
  }
  EXPECT_EQ(payload[0], payload[2]);
  EXPECT_EQ(2 * payload[1], 3 * payload[2]);
  EXPECT_EQ(payload[3], payload[2]);
  // The last unit stays for backward.
  EXPECT_EQ(payload[4], payload[1] - 64 / 2 * 4);
}

TEST(ShardedStagesTest, ParametersAreThereFromGatherToRelease) {
  const auto ranks = MakeRanks(2, Config(ZeroStage::kThree));
  ZeroOptimizer& optimizer = ranks->optimizer(1);
  EXPECT_THAT(optimizer.GatheredParams<float>(1),
              StatusIs(kPrecondition, AllOf(HasSubstr("'a.bias'"), HasSubstr("Gather(0)"))));
  EXPECT_THAT(optimizer.Params<float>(1), IsEmpty());
  for (const absl::Status& status : ranks->Gather(0, Pass::kForward)) ASSERT_OK(status);
  ASSERT_OK_AND_ASSIGN(const absl::Span<float> bias, optimizer.GatheredParams<float>(1));
  ASSERT_THAT(bias, SizeIs(64));
  EXPECT_EQ(bias[63], Initial(1, 63));
  EXPECT_THAT(optimizer.GatheredParams<float>(2), StatusIs(kPrecondition, HasSubstr("b.weight")));
  for (const absl::Status& status : ranks->Release(0, Pass::kForward)) ASSERT_OK(status);
  EXPECT_THAT(optimizer.GatheredParams<float>(1), StatusIs(kPrecondition));
  // The last unit is kept for backward, but not beyond the step.
  for (const absl::Status& status : ranks->Gather(2, Pass::kForward)) ASSERT_OK(status);
  for (const absl::Status& status : ranks->Release(2, Pass::kForward)) ASSERT_OK(status);
  EXPECT_TRUE(optimizer.IsGathered(2));
  ASSERT_OK(ranks->Step({0.1})[0].status());
  EXPECT_FALSE(optimizer.IsGathered(2));
}

TEST(ShardedStagesTest, WhatIsSentFromTheFirstReleaseOnIsTheSteps) {
  const auto ranks = MakeRanks(2, Config(ZeroStage::kThree));
  for (const size_t unit : {2, 1, 0}) {
    for (const absl::Status& status : ranks->Release(unit, Pass::kBackward)) ASSERT_OK(status);
  }
  const auto reports = ranks->Step({0.1});
  ASSERT_OK(reports[0].status());
  EXPECT_EQ(reports[0]->norm, 0);
  ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks->optimizer(0).ExpectedWire());
  EXPECT_EQ(reports[0]->payload_bytes, plan.payload_bytes());
}

TEST(ShardedStagesTest, GatheringOutOfTurnIsAnError) {
  ZeroConfig config = Config(ZeroStage::kThree);
  config.max_live_parameters = 400;
  const auto ranks = MakeRanks(2, config);
  ZeroOptimizer& optimizer = ranks->optimizer(0);
  EXPECT_THAT(optimizer.StartGather(3, Pass::kForward), StatusIs(kInvalid, HasSubstr("3")));
  EXPECT_THAT(optimizer.Release(3, Pass::kForward), StatusIs(kInvalid));
  EXPECT_THAT(optimizer.GatheredParams<float>(4), StatusIs(kInvalid));
  for (const absl::Status& status : ranks->Gather(0, Pass::kForward)) ASSERT_OK(status);
  EXPECT_THAT(optimizer.StartGather(2, Pass::kEvaluation),
              StatusIs(kPrecondition, HasSubstr("evaluation")));
  EXPECT_THAT(
      optimizer.StartGather(1, Pass::kForward),
      StatusIs(kPrecondition, AllOf(HasSubstr("beside unit 0"), HasSubstr("max_live_parameters"))));
  ASSERT_OK(optimizer.StartGather(2, Pass::kForward));
  EXPECT_THAT(optimizer.Release(2, Pass::kForward),
              StatusIs(kPrecondition, HasSubstr("still being gathered")));
  // It waits for the unit, here in vain.
  EXPECT_THAT(optimizer.StartStep({}), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(ShardedStagesTest, AnnouncingOutOfTurnIsAnError) {
  const std::vector<float> five(5), six(6);
  const std::vector<uint16_t> narrow(5);
  auto fresh = SimRanks::Create(1, "", Specs(), Config(ZeroStage::kTwo));
  ASSERT_OK(fresh.status());
  EXPECT_THAT((*fresh)->optimizer(0).AddGradient(3, five),
              StatusIs(kPrecondition, HasSubstr("initialized")));
  ZeroConfig viewed = Config(ZeroStage::kOne);
  viewed.announce_gradients = false;
  EXPECT_THAT(MakeRanks(1, viewed)->optimizer(0).AddGradient(3, five),
              StatusIs(kPrecondition, AllOf(HasSubstr("'c'"), HasSubstr("announce_gradients"))));
  for (const ZeroStage stage : kStages) {
    ZeroConfig config = Config(stage);
    config.gradient_accumulation_steps = 2;
    const auto ranks = MakeRanks(1, config);
    ZeroOptimizer& optimizer = ranks->optimizer(0);
    EXPECT_THAT(optimizer.AddGradient(4, five), StatusIs(kInvalid, HasSubstr("4")));
    EXPECT_THAT(optimizer.AddGradient(3, six), StatusIs(kInvalid, HasSubstr("'c' has 6")));
    EXPECT_THAT(optimizer.AddGradient(3, narrow), StatusIs(kInvalid, HasSubstr("16 bits")));
    ASSERT_OK(optimizer.AddGradient(3, five));
    EXPECT_THAT(optimizer.AddGradient(3, five),
                StatusIs(kPrecondition, AllOf(HasSubstr("'c' comes twice"), HasSubstr("step 1"))));
    ASSERT_OK(optimizer.Release(1, Pass::kBackward));
    EXPECT_THAT(optimizer.AddGradient(2, std::vector<float>(160)),
                StatusIs(kPrecondition, HasSubstr("after unit 1 was released")));
    ASSERT_OK(optimizer.EndMicroStep());
    ASSERT_OK(optimizer.AddGradient(3, five));
    EXPECT_THAT(optimizer.EndMicroStep(), StatusIs(kPrecondition, HasSubstr("micro-step 2 of 2")));
    ASSERT_OK(optimizer.Step({}).status());
  }
}

TEST(ShardedStagesTest, SixteenBitGradientsAreTakenAsTheyAre) {
  for (const ZeroStage stage : kStages) {
    std::string expected;
    for (const bool narrow : {false, true}) {
      const auto ranks = MakeRanks(1, Config(stage, DType::kBFloat16));
      const std::vector<uint16_t> bits(160, 0x3f00);
      const std::vector<float> values(160, 0.5f);
      ASSERT_OK(narrow ? ranks->optimizer(0).AddGradient(2, bits)
                       : ranks->optimizer(0).AddGradient(2, values));
      ASSERT_OK_AND_ASSIGN(const StepReport report, ranks->optimizer(0).Step({}));
      EXPECT_NEAR(report.norm, 0.5 * std::sqrt(160.0), 1e-12);
      if (expected.empty()) expected = ranks->StateBits(0);
      EXPECT_TRUE(ranks->StateBits(0) == expected);
    }
  }
}

TEST(ShardedStagesTest, ThePoolGrowsOnceWhereGradientsComeFarOutOfOrder) {
  ZeroConfig config = Config(ZeroStage::kTwo);
  config.buckets_in_flight = 1;
  const auto ranks = MakeRanks(2, config);
  const int64_t planned = Bytes(ranks->optimizer(0).Memory(), MemoryTag::kBucket);
  EXPECT_EQ(planned, 2 * 64 * 4);
  // Forward: the first bucket is complete last.
  ranks->set_order([](int, size_t parameters) {
    std::vector<size_t> order(parameters);
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  });
  int64_t grown = 0;
  for (int step = 0; step < 3; ++step) {
    SetGradients(*ranks, 0.25f);
    const auto reports = ranks->Step({0.1});
    ASSERT_OK(reports[0].status());
    EXPECT_NEAR(reports[0]->norm, 0.25 * std::sqrt(485.0), 1e-12);
    if (step == 0) grown = Bytes(ranks->optimizer(0).Memory(), MemoryTag::kBucket);
    EXPECT_EQ(Bytes(ranks->optimizer(0).Memory(), MemoryTag::kBucket), grown);
  }
  EXPECT_GT(grown, planned);
}

TEST(ShardedStagesTest, OneRanksNanSkipsTheStepOnAllAndNamesRankAndParameter) {
  for (const ZeroStage stage : kStages) {
    for (const int64_t micro_steps : {1, 2}) {
      for (const AccumulationPolicy policy :
           {AccumulationPolicy::kLocal, AccumulationPolicy::kShard}) {
        ZeroConfig config = Config(stage, DType::kBFloat16);
        config.gradient_accumulation_steps = micro_steps;
        config.accumulation = policy;
        const auto ranks = MakeRanks(4, config);
        const std::string before = ranks->StateBits(0);
        SetGradients(*ranks, 0.5f);
        ranks->SetGradient(2, 2, 17, std::numeric_limits<float>::quiet_NaN());
        ranks->SetGradient(3, 1, 3, std::numeric_limits<float>::infinity());
        if (micro_steps == 2) {
          for (const absl::Status& status : ranks->EndMicroStep()) ASSERT_OK(status);
          SetGradients(*ranks, 0.5f);
        }
        for (const auto& report : ranks->Step({0.1})) {
          ASSERT_OK(report.status());
          EXPECT_TRUE(report->skipped);
          EXPECT_EQ(report->first_non_finite_parameter, "b.weight");
          EXPECT_EQ(report->non_finite_cause, "rank 2's gradient of b.weight is not finite");
        }
        EXPECT_TRUE(ranks->StateBits(0) == before);
        SetGradients(*ranks, 0.5f);
        const auto reports = ranks->Step({0.1});
        ASSERT_OK(reports[1].status());
        EXPECT_FALSE(reports[1]->skipped);
        EXPECT_EQ(reports[1]->step, 1);
      }
    }
  }
}

// The window's last micro-steps are missing: what is there is the step.
TEST(ShardedStagesTest, AShortWindowIsAStepOfWhatItHas) {
  for (const AccumulationPolicy policy : {AccumulationPolicy::kLocal, AccumulationPolicy::kShard}) {
    std::string expected;
    for (const ZeroStage stage : kStages) {
      ZeroConfig config = Config(stage);
      config.gradient_accumulation_steps = 4;
      config.accumulation = policy;
      const auto ranks = MakeRanks(2, config);
      SetGradients(*ranks, 0.5f);
      for (const absl::Status& status : ranks->EndMicroStep()) ASSERT_OK(status);
      SetGradients(*ranks, 0.25f);
      const auto reports = ranks->Step({0.1});
      ASSERT_OK(reports[1].status());
      EXPECT_NEAR(reports[1]->norm, 0.75 * std::sqrt(485.0), 1e-12) << "stage " << stage;
      if (expected.empty()) expected = ranks->StateBits(0);
      EXPECT_TRUE(ranks->StateBits(0) == expected) << "stage " << stage;
    }
  }
}

TEST(ShardedStagesTest, TheSumOfGradientsIsTheWorldTimesTheirMean) {
  for (const ZeroStage stage : kStages) {
    ZeroConfig config = Config(stage);
    config.reduction = GradientReduction::kSum;
    const auto ranks = MakeRanks(4, config);
    SetGradients(*ranks, 0.5f);
    const auto reports = ranks->Step({0.1});
    ASSERT_OK(reports[0].status());
    EXPECT_NEAR(reports[0]->norm, 2 * std::sqrt(485.0), 1e-12);
  }
}

TEST(ShardedStagesTest, ADeadRankEndsAllWithOneCause) {
  for (const ZeroStage stage : kStages) {
    const auto ranks = MakeRanks(3, Config(stage));
    const std::string before = ranks->StateBits(0);
    SetGradients(*ranks, 1);
    ranks->Kill(1);
    const auto reports = ranks->Step({0.1});
    for (const int survivor : {0, 2}) {
      EXPECT_THAT(reports[static_cast<size_t>(survivor)],
                  StatusIs(absl::StatusCode::kUnavailable, HasSubstr("1")))
          << "stage " << stage;
      ZeroOptimizer& optimizer = ranks->optimizer(survivor);
      const absl::Status cause = ranks->communicator(survivor).status();
      EXPECT_EQ(optimizer.AddGradient(3, std::vector<float>(5)), cause);
      EXPECT_EQ(optimizer.Gather(0, Pass::kForward), cause);
      EXPECT_EQ(optimizer.Step({}).status(), cause);
    }
    EXPECT_TRUE(ranks->StateBits(0) == before);
  }
}

TEST(ShardedStagesTest, ARankThatDiesDuringAGatherOrAReductionEndsAllWithOneCause) {
  for (const bool in_gather : {true, false}) {
    const auto ranks = MakeRanks(3, Config(ZeroStage::kThree));
    const std::string before = ranks->StateBits(0);
    const std::vector<float> gradient(5);
    for (int rank = 0; rank < 3; ++rank) {
      ZeroOptimizer& optimizer = ranks->optimizer(rank);
      if (in_gather) {
        ASSERT_OK(optimizer.StartGather(0, Pass::kForward));
      } else {
        ASSERT_OK(optimizer.StartAddGradient(3, gradient));
        ASSERT_TRUE(optimizer.Poll());
        ASSERT_OK(optimizer.Release(2, Pass::kBackward));
      }
    }
    ranks->Kill(1);
    const std::vector<absl::Status> results = ranks->Gather(0, Pass::kForward);
    for (const int survivor : {0, 2}) {
      const absl::Status& cause = results[static_cast<size_t>(survivor)];
      EXPECT_THAT(cause, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("rank 1")));
      EXPECT_EQ(ranks->optimizer(survivor).Step({}).status(), cause);
      EXPECT_EQ(ranks->optimizer(survivor).Release(0, Pass::kForward), cause);
    }
    EXPECT_TRUE(ranks->StateBits(0) == before);
  }
}

TEST(ShardedStagesTest, DestroyedWithReductionsAndGathersUnderWayItLetsGo) {
  for (const ZeroStage stage : {ZeroStage::kTwo, ZeroStage::kThree}) {
    const auto ranks = MakeRanks(2, Config(stage));
    ZeroOptimizer& optimizer = ranks->optimizer(0);
    const std::vector<float> gradient(5);
    ASSERT_OK(optimizer.StartAddGradient(3, gradient));
    (void)optimizer.Poll();
    ASSERT_OK(optimizer.Release(2, Pass::kBackward));
    if (stage == ZeroStage::kThree) {
      ASSERT_OK(optimizer.StartGather(0, Pass::kBackward));
    }
    ranks->Destroy(0);
    EXPECT_THAT(ranks->communicator(0).status(),
                StatusIs(absl::StatusCode::kCancelled, HasSubstr("destroyed")));
  }
}

}  // namespace
}  // namespace rz
