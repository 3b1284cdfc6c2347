// Gradients of another dtype than the weights: held, reduced and kept in it by every stage alike,
// with every byte accounted for.
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"
#include "runtime/memory/memory.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;

constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne,
                                 ZeroStage::kTwo, ZeroStage::kThree};

std::vector<ParamSpec> Specs() { return {{"a", {130}, 0}, {"b", {7}, 1}, {"c", {301}, 1}}; }
constexpr int64_t kParameters = 438;

struct DTypes {
  DType working;
  std::optional<DType> communication;
  std::optional<DType> accumulation;
  int64_t micro_steps = 1;
  AccumulationPolicy policy = AccumulationPolicy::kLocal;
};

std::ostream& operator<<(std::ostream& os, const DTypes& dtypes) {
  return os << NameOf(dtypes.working) << ", reduced in "
            << NameOf(dtypes.communication.value_or(dtypes.working))
            << ", kept in float32: " << dtypes.accumulation.has_value() << ", "
            << dtypes.micro_steps << " micro-steps, "
            << (dtypes.policy == AccumulationPolicy::kLocal ? "local" : "shard");
}

ZeroConfig Config(ZeroStage stage, const DTypes& dtypes, bool announced) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtypes.working;
  config.communication_dtype = dtypes.communication;
  config.accumulation_dtype = dtypes.accumulation;
  config.gradient_accumulation_steps = dtypes.micro_steps;
  config.accumulation = dtypes.policy;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 1;
  config.announce_gradients = announced;
  return config;
}

// Not a bfloat16, nor a sum of them.
float Gradient(int rank, size_t index, size_t i) {
  return 0.1f + 0.001f * static_cast<float>(i % 13) + 0.01f * static_cast<float>(rank) +
         0.003f * static_cast<float>(index);
}

void SetGradients(SimRanks& ranks) {
  for (int rank = 0; rank < ranks.world(); ++rank) {
    for (size_t p = 0; p < Specs().size(); ++p) {
      for (size_t i = 0; i < static_cast<size_t>(Specs()[p].shape[0]); ++i) {
        ranks.SetGradient(rank, p, i, Gradient(rank, p, i));
      }
    }
  }
}

struct Trained {
  std::string bits;
  double norm = 0;
  MemoryReport memory;
};

// Two steps, whose books must balance.
void Train(int world, const ZeroConfig& config, Trained* trained) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SimRanks> ranks,
                       SimRanks::Create(world, "", Specs(), config));
  const auto initializer = [](size_t index, absl::Span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * static_cast<float>(index + i);
  };
  for (const absl::Status& status : ranks->Initialize(initializer)) ASSERT_OK(status);
  for (int step = 0; step < 2; ++step) {
    for (int64_t i = 1; i < config.gradient_accumulation_steps; ++i) {
      SetGradients(*ranks);
      for (const absl::Status& status : ranks->EndMicroStep()) ASSERT_OK(status);
    }
    SetGradients(*ranks);
    for (const auto& report : ranks->Step({0.01})) {
      ASSERT_OK(report.status());
      ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks->optimizer(0).ExpectedWire());
      EXPECT_EQ(report->payload_bytes, plan.payload_bytes()) << plan.explanation;
      trained->norm = report->norm;
    }
  }
  trained->bits = ranks->StateBits(world - 1);
  trained->memory = ranks->optimizer(world - 1).Memory();
  EXPECT_TRUE(trained->memory.Balances()) << RenderMemoryTable({&trained->memory, 1});
}

int64_t Other(const MemoryReport& report, MemoryTag tag) {
  for (const OtherMemory& other : report.other) {
    if (other.tag == tag) return other.now;
  }
  return -1;
}

constexpr DType k32 = DType::kFloat32, kB = DType::kBFloat16, kH = DType::kFloat16;

TEST(GradientDTypesTest, AllStagesHaveTheSameBitsAndTheirBooksBalance) {
  const DTypes all[] = {
      {kB, k32, std::nullopt}, {kH, k32, std::nullopt},
      {k32, kB, std::nullopt}, {kB, std::nullopt, k32},
      {kH, kH, k32},           {k32, kH, k32},
      {kB, k32, k32, 3},       {kB, k32, k32, 3, AccumulationPolicy::kShard},
      {k32, kB, k32, 3},       {kB, kB, k32, 3, AccumulationPolicy::kShard},
  };
  for (const int world : {1, 3, 4}) {
    for (const DTypes& dtypes : all) {
      std::string expected;
      for (const ZeroStage stage : kStages) {
        for (const bool announced : {false, true}) {
          if (!announced && (!HoldsWholeGradients(stage) || dtypes.micro_steps > 1)) continue;
          SCOPED_TRACE(::testing::Message()
                       << dtypes << ", stage " << stage << ", world " << world);
          Trained trained;
          ASSERT_NO_FATAL_FAILURE(Train(world, Config(stage, dtypes, announced), &trained));
          if (expected.empty()) expected = trained.bits;
          EXPECT_TRUE(trained.bits == expected);
        }
      }
    }
  }
}

// The mean of what the ranks brought, in float64.
double ExactNorm(int world) {
  double sum = 0;
  for (size_t p = 0; p < Specs().size(); ++p) {
    for (size_t i = 0; i < static_cast<size_t>(Specs()[p].shape[0]); ++i) {
      double mean = 0;
      for (int rank = 0; rank < world; ++rank) mean += Gradient(rank, p, i);
      sum += std::pow(mean / world, 2);
    }
  }
  return std::sqrt(sum);
}

TEST(GradientDTypesTest, WhatIsReducedInFloat32IsNotRoundedTo16Bits) {
  for (const ZeroStage stage : kStages) {
    Trained wide, narrow;
    ASSERT_NO_FATAL_FAILURE(Train(3, Config(stage, {kB, k32, std::nullopt}, true), &wide));
    ASSERT_NO_FATAL_FAILURE(
        Train(3, Config(stage, {kB, std::nullopt, std::nullopt}, true), &narrow));
    EXPECT_NEAR(wide.norm / ExactNorm(3), 1, 1e-7) << "stage " << stage;
    EXPECT_GT(std::fabs(narrow.norm / ExactNorm(3) - 1), 1e-6) << "stage " << stage;
    EXPECT_NE(wide.bits, narrow.bits);
  }
}

// The rounding has been done on the way: keeping what it gave in float32 changes memory alone.
TEST(GradientDTypesTest, WhatIsKeptInFloat32IsHeldBesideTheFormula) {
  for (const ZeroStage stage : kStages) {
    Trained kept, plain;
    ASSERT_NO_FATAL_FAILURE(Train(2, Config(stage, {kB, kB, k32}, true), &kept));
    ASSERT_NO_FATAL_FAILURE(Train(2, Config(stage, {kB, kB, kB}, true), &plain));
    EXPECT_EQ(kept.bits, plain.bits) << "stage " << stage;
    EXPECT_EQ(Other(plain.memory, MemoryTag::kAccumulator), 0);
    const int64_t elements = kParameters + kept.memory.shape.padding_elements;
    EXPECT_EQ(Other(kept.memory, MemoryTag::kAccumulator),
              elements * 4 / (stage == ZeroStage::kDdp ? 1 : 2));
  }
}

TEST(GradientDTypesTest, ViewsAreOfTheDTypeOfCommunication) {
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<SimRanks> ranks,
      SimRanks::Create(1, "", Specs(), Config(ZeroStage::kOne, {kB, k32, std::nullopt}, false)));
  for (const absl::Status& status : ranks->Initialize([](size_t, absl::Span<float>) {})) {
    ASSERT_OK(status);
  }
  ranks->optimizer(0).Grads<float>(1)[6] = 0.1f;
  ASSERT_OK_AND_ASSIGN(const StepReport report, ranks->optimizer(0).Step({}));
  EXPECT_EQ(report.norm, static_cast<double>(0.1f));
}

// Of 16-bit gradients that are announced to be reduced in float32.
TEST(GradientDTypesTest, SixteenBitGradientsAreWidened) {
  const std::vector<uint16_t> bits(7, 0x3f00);  // 0.5
  for (const ZeroStage stage : kStages) {
    ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<SimRanks> ranks,
        SimRanks::Create(1, "", Specs(), Config(stage, {kB, k32, std::nullopt}, true)));
    for (const absl::Status& status : ranks->Initialize([](size_t, absl::Span<float>) {})) {
      ASSERT_OK(status);
    }
    ASSERT_OK(ranks->optimizer(0).AddGradient(1, bits));
    ASSERT_OK_AND_ASSIGN(const StepReport report, ranks->optimizer(0).Step({}));
    EXPECT_NEAR(report.norm, 0.5 * std::sqrt(7.0), 1e-12);
  }
}

TEST(GradientDTypesTest, ThereAreNoViewsOfGradientsThatAreAnnounced) {
  for (const bool announced : {false, true}) {
    ZeroConfig config;
    config.stage = ZeroStage::kOne;
    config.announce_gradients = announced;
    ASSERT_OK_AND_ASSIGN(const auto ranks, SimRanks::Create(1, "", {{"w", {100}}}, config));
    ZeroOptimizer& optimizer = ranks->optimizer(0);
    for (const absl::Status& status : ranks->Initialize([](size_t, absl::Span<float>) {})) {
      ASSERT_OK(status);
    }
    EXPECT_EQ(optimizer.Grads<uint16_t>(0).empty(), announced);
    if (!announced) continue;
    // Gradients that are announced are nobody's to clear.
    ASSERT_OK(optimizer.AddGradient(0, std::vector<float>(100, 1.0f)));
    optimizer.ZeroGradients();
    ASSERT_OK_AND_ASSIGN(const StepReport report, optimizer.Step({}));
    EXPECT_NEAR(report.norm, 10, 1e-6);
  }
}

}  // namespace
}  // namespace rz
