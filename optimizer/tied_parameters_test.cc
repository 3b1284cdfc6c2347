// Tied parameters: one storage under two names, whose gradients are added up, also where the two
// are of units that stage 3 gathers apart.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

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

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne,
                                 ZeroStage::kTwo, ZeroStage::kThree};
constexpr size_t kEmbedding = 0, kHead = 4;
constexpr size_t kTied = 133;

// As a language model's embedding and head: of the first and of the last unit.
std::vector<ParamSpec> Specs() {
  return {{"embedding", {kTied}, 0},
          {"position", {40}, 0},
          {"a", {70}, 1},
          {"b", {3}, 2},
          {"head", {kTied}, 3, 0, false, "embedding"},
          {"bias", {5}, 3}};
}

// The same model as it is without the second name.
std::vector<ParamSpec> Untied() {
  std::vector<ParamSpec> specs = Specs();
  specs.erase(specs.begin() + kHead);
  return specs;
}

ZeroConfig Config(ZeroStage stage, DType dtype) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtype;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 1;
  config.announce_gradients = true;
  return config;
}

float Gradient(int rank, size_t index, size_t i, int64_t micro_step) {
  const auto n = static_cast<int64_t>(i * 7 + index * 5) + 3 * rank + 11 * micro_step;
  return 0.1f * static_cast<float>(n % 41 - 20);
}

std::unique_ptr<SimRanks> MakeRanks(int world, const std::vector<ParamSpec>& specs,
                                    const ZeroConfig& config) {
  auto ranks = SimRanks::Create(world, "", specs, config);
  EXPECT_OK(ranks.status());
  const auto initializer = [&](size_t index, absl::Span<float> values) {
    EXPECT_TRUE(specs[index].tied_to.empty());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.01f * static_cast<float>(i + specs[index].name.size());
    }
  };
  for (const absl::Status& status : (*ranks)->Initialize(initializer)) EXPECT_OK(status);
  return *std::move(ranks);
}

// Which of the two names rank `rank` has a gradient for.
struct Uses {
  bool embedding = true;
  bool head = true;
};
Uses Both(int) { return {}; }

void SetGradients(SimRanks& ranks, const std::vector<ParamSpec>& specs, int64_t micro_step,
                  Uses (*uses)(int rank)) {
  const bool tied = specs.size() == Specs().size();
  for (int rank = 0; rank < ranks.world(); ++rank) {
    for (size_t p = 0; p < Specs().size(); ++p) {
      const size_t index = tied || p < kHead ? p : p - 1;
      if ((p == kEmbedding && !uses(rank).embedding) || (p == kHead && !uses(rank).head)) continue;
      if (!tied && p == kHead) continue;
      for (size_t i = 0; i < static_cast<size_t>(Specs()[p].shape[0]); ++i) {
        float value = Gradient(rank, p, i, micro_step);
        if (!tied && p == kEmbedding) value += Gradient(rank, kHead, i, micro_step);
        ranks.SetGradient(rank, index, i, value);
      }
    }
  }
}

struct Trained {
  std::string bits;
  double norm = 0;
};

// Two steps, whose books must balance.
void Train(int world, const std::vector<ParamSpec>& specs, const ZeroConfig& config,
           const SimRanks::Order& order, Uses (*uses)(int rank), Trained* trained) {
  const auto ranks = MakeRanks(world, specs, config);
  if (order) ranks->set_order(order);
  int64_t micro_step = 0;
  for (int step = 0; step < 2; ++step) {
    for (int64_t i = 1; i < config.gradient_accumulation_steps; ++i) {
      SetGradients(*ranks, specs, ++micro_step, uses);
      for (const absl::Status& status : ranks->EndMicroStep()) ASSERT_OK(status);
    }
    SetGradients(*ranks, specs, ++micro_step, uses);
    for (const auto& report : ranks->Step({0.01})) {
      ASSERT_OK(report.status());
      trained->norm = report->norm;
      ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks->optimizer(0).ExpectedWire());
      EXPECT_EQ(report->payload_bytes, plan.payload_bytes()) << plan.explanation;
    }
  }
  trained->bits = ranks->StateBits(world - 1);
  const MemoryReport memory = ranks->optimizer(0).Memory();
  EXPECT_TRUE(memory.Balances()) << RenderMemoryTable({&memory, 1});
  EXPECT_EQ(memory.shape.parameter_elements, 133 + 40 + 70 + 3 + 5);
}

SimRanks::Order Shuffled(uint64_t seed) {
  return [seed](int rank, size_t parameters) {
    std::vector<size_t> order(parameters);
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937_64 random(seed + static_cast<uint64_t>(rank));
    std::shuffle(order.begin(), order.end(), random);
    return order;
  };
}

// States alone: working parameters appear under both names.
std::string States(const Trained& trained, const std::vector<ParamSpec>& specs) {
  size_t elements = 0;
  for (const ParamSpec& spec : specs) elements += static_cast<size_t>(spec.shape[0]);
  return trained.bits.substr(elements * sizeof(float));
}

TEST(TiedParametersTest, TheyHaveTheBitsOfOneParameterWithTheSumOfTheirGradients) {
  for (const int world : {1, 2, 3}) {
    Trained one;
    ASSERT_NO_FATAL_FAILURE(
        Train(world, Untied(), Config(ZeroStage::kDdp, DType::kFloat32), {}, Both, &one));
    for (const ZeroStage stage : kStages) {
      for (const uint64_t seed : {0, 1, 2}) {
        SCOPED_TRACE(::testing::Message() << "stage " << stage << ", world " << world);
        Trained tied;
        ASSERT_NO_FATAL_FAILURE(Train(world, Specs(), Config(stage, DType::kFloat32),
                                      seed == 0 ? nullptr : Shuffled(seed), Both, &tied));
        EXPECT_EQ(tied.norm, one.norm);
        EXPECT_TRUE(States(tied, Specs()) == States(one, Untied()));
      }
    }
  }
}

TEST(TiedParametersTest, AllStagesHaveTheSameBitsWithMicroStepsAndUnusedNames) {
  // Rank 0 both, rank 1 the first, rank 2 the second alone, rank 3 none.
  const auto uses = [](int rank) { return Uses{rank < 2, rank % 2 == 0}; };
  for (const int64_t micro_steps : {1, 3}) {
    for (const AccumulationPolicy policy :
         {AccumulationPolicy::kLocal, AccumulationPolicy::kShard}) {
      std::string expected;
      for (const ZeroStage stage : kStages) {
        for (const uint64_t seed : {0, 1}) {
          for (const int64_t distance : {0, 1'000}) {
            ZeroConfig config = Config(stage, DType::kBFloat16);
            config.gradient_accumulation_steps = micro_steps;
            config.accumulation = policy;
            config.max_reuse_distance = distance;
            config.param_persistence_threshold = seed == 0 ? 0 : 150;
            Trained trained;
            ASSERT_NO_FATAL_FAILURE(
                Train(4, Specs(), config, seed == 0 ? nullptr : Shuffled(seed), uses, &trained));
            if (expected.empty()) expected = trained.bits;
            EXPECT_TRUE(trained.bits == expected) << "stage " << stage << ", seed " << seed;
          }
        }
      }
    }
  }
}

// Working dtype: what is added up is rounded once.
TEST(TiedParametersTest, TheirSumIsRoundedOnce) {
  for (const ZeroStage stage : kStages) {
    const auto ranks = MakeRanks(1, Specs(), Config(stage, DType::kBFloat16));
    // 1 + 2^-9 + 2^-9 is 1 + 2^-8 in float32, where bfloat16 rounds 1 + 2^-9 to 1.
    ranks->SetGradient(0, kEmbedding, 0, 1 + std::ldexp(1.0f, -9));
    ranks->SetGradient(0, kHead, 0, std::ldexp(1.0f, -9) + std::ldexp(1.0f, -8));
    const auto reports = ranks->Step({0.01});
    ASSERT_OK(reports[0].status());
    EXPECT_EQ(reports[0]->norm, 1 + std::ldexp(1.0, -7)) << "stage " << stage;
  }
}

TEST(TiedParametersTest, BothNamesAreOneView) {
  for (const ZeroStage stage : {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne}) {
    ZeroConfig config = Config(stage, DType::kFloat32);
    config.announce_gradients = false;
    const auto ranks = MakeRanks(1, Specs(), config);
    ZeroOptimizer& optimizer = ranks->optimizer(0);
    EXPECT_EQ(optimizer.Params<float>(kHead).data(), optimizer.Params<float>(kEmbedding).data());
    EXPECT_EQ(optimizer.Grads<float>(kHead).data(), optimizer.Grads<float>(kEmbedding).data());
    optimizer.ZeroGradients();
    for (const size_t name : {kEmbedding, kHead}) optimizer.Grads<float>(name)[7] += 1.5f;
    ASSERT_OK_AND_ASSIGN(const StepReport report, optimizer.Step({}));
    EXPECT_EQ(report.norm, 3);
  }
}

// Each user of a unit holds it; what is whole beside it does not matter.
TEST(TiedParametersTest, GatheringTheSecondsUnitBringsTheFirst) {
  const auto ranks = MakeRanks(3, Specs(), Config(ZeroStage::kThree, DType::kFloat32));
  const auto all = [&](const std::vector<absl::Status>& results) {
    for (const absl::Status& status : results) ASSERT_OK(status);
  };
  ZeroOptimizer& optimizer = ranks->optimizer(1);
  all(ranks->Gather(3, Pass::kEvaluation));
  EXPECT_TRUE(optimizer.IsGathered(3));
  EXPECT_TRUE(optimizer.IsGathered(0));
  ASSERT_OK_AND_ASSIGN(const absl::Span<float> head, optimizer.GatheredParams<float>(kHead));
  EXPECT_EQ(head.data(), optimizer.Params<float>(kEmbedding).data());
  EXPECT_EQ(head[3], 0.01f * (3 + 9));
  all(ranks->Gather(0, Pass::kEvaluation));
  all(ranks->Release(3, Pass::kEvaluation));
  EXPECT_FALSE(optimizer.IsGathered(3));
  EXPECT_OK(optimizer.GatheredParams<float>(kHead).status()) << "the first unit holds it";
  all(ranks->Release(0, Pass::kEvaluation));
  EXPECT_THAT(optimizer.GatheredParams<float>(kHead), StatusIs(kPrecondition, HasSubstr("'head'")));
  EXPECT_TRUE(optimizer.Params<float>(kEmbedding).empty());
  all(ranks->Gather(0, Pass::kEvaluation));
  all(ranks->Gather(3, Pass::kEvaluation));
  all(ranks->Release(0, Pass::kEvaluation));
  EXPECT_OK(optimizer.GatheredParams<float>(kEmbedding).status()) << "the last unit needs it";
  all(ranks->Release(3, Pass::kEvaluation));
  EXPECT_FALSE(optimizer.IsGathered(0));
}

TEST(TiedParametersTest, WhatAUnitNeedsIsGatheredWhateverTheLimitAndMoreIsRefusedWhole) {
  ZeroConfig config = Config(ZeroStage::kThree, DType::kFloat32);
  config.max_live_parameters = 1;
  const auto ranks = MakeRanks(2, Specs(), config);
  for (const absl::Status& status : ranks->Gather(3, Pass::kEvaluation)) ASSERT_OK(status);
  EXPECT_THAT(ranks->optimizer(0).StartGather(1, Pass::kEvaluation),
              StatusIs(kPrecondition, HasSubstr("beside unit 0 3")));
  for (const absl::Status& status : ranks->Release(3, Pass::kEvaluation)) ASSERT_OK(status);
  for (const absl::Status& status : ranks->Gather(1, Pass::kEvaluation)) ASSERT_OK(status);
  // Not the first of the two either.
  EXPECT_THAT(ranks->optimizer(0).StartGather(3, Pass::kEvaluation),
              StatusIs(kPrecondition, HasSubstr("beside unit 1:")));
  EXPECT_FALSE(ranks->optimizer(0).IsGathered(0));
  EXPECT_OK(ranks->optimizer(0).Release(1, Pass::kEvaluation));
  EXPECT_OK(ranks->optimizer(1).Release(1, Pass::kEvaluation));
  for (const absl::Status& status : ranks->Gather(3, Pass::kEvaluation)) ASSERT_OK(status);
}

TEST(TiedParametersTest, AGradientThatComesTooLateOrTwiceIsNamed) {
  for (const ZeroStage stage : kStages) {
    const auto ranks = MakeRanks(1, Specs(), Config(stage, DType::kFloat32));
    ZeroOptimizer& optimizer = ranks->optimizer(0);
    const std::vector<float> gradient(kTied, 1);
    ASSERT_OK(optimizer.AddGradient(kEmbedding, gradient));
    EXPECT_THAT(optimizer.AddGradient(kEmbedding, gradient),
                StatusIs(kPrecondition, HasSubstr("'embedding' comes twice")));
    ASSERT_OK(optimizer.Release(0, Pass::kBackward));
    EXPECT_THAT(optimizer.AddGradient(kHead, gradient),
                StatusIs(kPrecondition,
                         AllOf(HasSubstr("'head' comes after unit 0"), HasSubstr("'embedding'"))));
    ASSERT_OK_AND_ASSIGN(const StepReport report, optimizer.Step({}));
    EXPECT_NEAR(report.norm, std::sqrt(133.0), 1e-12);
  }
}

TEST(TiedParametersTest, TheyMayBeFrozen) {
  std::vector<ParamSpec> specs = Specs();
  specs[kEmbedding].frozen = specs[kHead].frozen = true;
  for (const ZeroStage stage : kStages) {
    const auto ranks = MakeRanks(2, specs, Config(stage, DType::kFloat16));
    EXPECT_EQ(ranks->optimizer(0).layout().frozen_elements(), 133);
    const float before = ranks->Parameter(1, kHead, 5);
    for (int rank : {0, 1}) ranks->SetGradient(rank, 2, 0, 1);
    for (const auto& report : ranks->Step({0.01})) {
      ASSERT_OK(report.status());
      ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks->optimizer(0).ExpectedWire());
      EXPECT_EQ(report->payload_bytes, plan.payload_bytes());
    }
    EXPECT_EQ(ranks->Parameter(1, kHead, 5), before);
    EXPECT_EQ(ranks->Parameter(1, kEmbedding, 5), before);
  }
}

}  // namespace
}  // namespace rz
