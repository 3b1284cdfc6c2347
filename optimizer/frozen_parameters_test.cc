// Frozen parameters: they keep their first values, cost what parameters cost and nothing else, and
// change nothing about those that are trained.
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"
#include "runtime/memory/memory.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;
using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne,
                                 ZeroStage::kTwo, ZeroStage::kThree};
constexpr int kSteps = 2;

// A unit with both kinds, one all frozen, one all trained; frozen ones without elements, too.
std::vector<ParamSpec> Specs() {
  return {{"a.weight", {170}, 0},         {"a.scale", {33}, 0, 0, true}, {"a.bias", {5}, 0},
          {"b.weight", {97}, 1, 0, true}, {"b.none", {0}, 1, 0, true},   {"c.weight", {61}, 2},
          {"c.one", {}, 2, 0, true}};
}
constexpr int64_t kTrained = 170 + 5 + 61, kFrozen = 33 + 97 + 1;

std::vector<ParamSpec> AllFrozen() {
  std::vector<ParamSpec> specs = Specs();
  for (ParamSpec& spec : specs) spec.frozen = true;
  return specs;
}

ZeroConfig Config(ZeroStage stage, DType dtype = DType::kBFloat16) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtype;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 1;
  config.announce_gradients = true;
  config.gradient_clipping = 0.5;
  return config;
}

int64_t Elements(const ParamSpec& spec) { return spec.shape.empty() ? 1 : spec.shape[0]; }

// By name, so that models with and without a parameter have the same numbers for the others.
float Number(const std::string& name, size_t i) {
  return 0.25f *
             static_cast<float>((name.front() * 7 + name.back() * 3 + static_cast<int>(i)) % 23) -
         2;
}

std::unique_ptr<SimRanks> MakeRanks(int world, const std::vector<ParamSpec>& specs,
                                    const ZeroConfig& config) {
  auto ranks = SimRanks::Create(world, "", specs, config);
  EXPECT_OK(ranks.status());
  const auto initializer = [&](size_t index, absl::Span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = Number(specs[index].name, i);
  };
  for (const absl::Status& status : (*ranks)->Initialize(initializer)) EXPECT_OK(status);
  return *std::move(ranks);
}

void StepAndCheckBooks(SimRanks& ranks, const std::vector<ParamSpec>& specs) {
  for (int rank = 0; rank < ranks.world(); ++rank) {
    for (size_t p = 0; p < specs.size(); ++p) {
      for (size_t i = 0; !specs[p].frozen && i < static_cast<size_t>(Elements(specs[p])); ++i) {
        ranks.SetGradient(rank, p, i, Number(specs[p].name, i + static_cast<size_t>(5 * rank)));
      }
    }
  }
  const auto reports = ranks.Step({0.01});
  for (int rank = 0; rank < ranks.world(); ++rank) {
    ASSERT_OK(reports[static_cast<size_t>(rank)].status());
    ASSERT_OK_AND_ASSIGN(const WirePlan plan, ranks.optimizer(rank).ExpectedWire());
    EXPECT_EQ(reports[static_cast<size_t>(rank)]->payload_bytes, plan.payload_bytes())
        << plan.explanation;
    const MemoryReport memory = ranks.optimizer(rank).Memory();
    EXPECT_TRUE(memory.Balances()) << RenderMemoryTable({&memory, 1});
  }
}

std::vector<float> Values(SimRanks& ranks, size_t index, const ParamSpec& spec) {
  std::vector<float> values(static_cast<size_t>(Elements(spec)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = ranks.Parameter(0, index, i);
  return values;
}

TEST(FrozenParametersTest, TrainedOnesHaveTheBitsOfAModelWithoutTheFrozen) {
  std::vector<ParamSpec> without;
  for (ParamSpec spec : Specs()) {
    if (spec.frozen) continue;
    spec.unit = spec.unit == 0 ? 0 : 1;
    without.push_back(spec);
  }
  for (const int world : {1, 2, 3, 5}) {
    const auto plain = MakeRanks(world, without, Config(ZeroStage::kDdp));
    for (int step = 0; step < kSteps; ++step) StepAndCheckBooks(*plain, without);
    for (const ZeroStage stage : kStages) {
      for (const int64_t persistence : {0, 200}) {
        SCOPED_TRACE(::testing::Message() << "stage " << stage << ", world " << world);
        ZeroConfig config = Config(stage);
        config.param_persistence_threshold = persistence;
        const auto ranks = MakeRanks(world, Specs(), config);
        for (int step = 0; step < kSteps; ++step) StepAndCheckBooks(*ranks, Specs());
        size_t trained = 0;
        for (size_t p = 0; p < Specs().size(); ++p) {
          const ParamSpec spec = Specs()[p];
          const std::vector<float> values = Values(*ranks, p, spec);
          if (!spec.frozen) {
            EXPECT_EQ(values, Values(*plain, trained++, spec)) << spec.name;
          }
          for (size_t i = 0; spec.frozen && i < values.size(); ++i) {
            ASSERT_EQ(values[i], Number(spec.name, i)) << spec.name;
          }
        }
      }
    }
  }
}

TEST(FrozenParametersTest, TheyAreThereWhileTheirUnitIs) {
  for (const ZeroStage stage : kStages) {
    const auto ranks = MakeRanks(3, Specs(), Config(stage));
    StepAndCheckBooks(*ranks, Specs());
    for (size_t unit = 0; unit < 3; ++unit) {
      for (const absl::Status& status : ranks->Gather(unit, Pass::kEvaluation)) ASSERT_OK(status);
      for (size_t p = 0; p < Specs().size(); ++p) {
        if (static_cast<size_t>(Specs()[p].unit) != unit) continue;
        ASSERT_OK_AND_ASSIGN(const absl::Span<uint16_t> values,
                             ranks->optimizer(2).GatheredParams<uint16_t>(p));
        ASSERT_EQ(values.size(), static_cast<size_t>(Elements(Specs()[p])));
        for (size_t i = 0; Specs()[p].frozen && i < values.size(); ++i) {
          EXPECT_EQ(static_cast<uint32_t>(values[i]) << 16,
                    std::bit_cast<uint32_t>(Number(Specs()[p].name, i)));
        }
      }
      for (const absl::Status& status : ranks->Release(unit, Pass::kEvaluation)) ASSERT_OK(status);
    }
  }
}

TEST(FrozenParametersTest, TheyCostParametersAndNothingElse) {
  for (const ZeroStage stage : kStages) {
    const auto ranks = MakeRanks(2, Specs(), Config(stage));
    const MemoryReport report = ranks->optimizer(1).Memory();
    EXPECT_EQ(report.shape.parameter_elements, kTrained);
    EXPECT_EQ(report.shape.frozen_elements, kFrozen);
    EXPECT_EQ(StateFormula(report.shape, MemoryTag::kMaster).total, 4 * kTrained);
    EXPECT_EQ(StateFormula(report.shape, MemoryTag::kParameters).total, 2 * (kTrained + kFrozen));
    EXPECT_THAT(RenderMemoryTable({&report, 1}), HasSubstr("236 parameters and 131 frozen"));
  }
}

TEST(FrozenParametersTest, AGradientOfOneIsAnErrorThatNamesIt) {
  for (const ZeroStage stage : kStages) {
    const auto ranks = MakeRanks(1, Specs(), Config(stage));
    EXPECT_THAT(ranks->optimizer(0).AddGradient(3, std::vector<float>(97)),
                StatusIs(kPrecondition, AllOf(HasSubstr("'b.weight'"), HasSubstr("frozen"))));
    EXPECT_OK(ranks->optimizer(0).Step({}).status());
  }
}

TEST(FrozenParametersTest, ThereIsNoViewOfAGradient) {
  ZeroConfig config = Config(ZeroStage::kOne);
  config.announce_gradients = false;
  const auto ranks = MakeRanks(1, Specs(), config);
  for (size_t p = 0; p < Specs().size(); ++p) {
    EXPECT_EQ(ranks->optimizer(0).Grads<uint16_t>(p).empty(), Specs()[p].frozen);
  }
}

TEST(FrozenParametersTest, AModelThatIsAllFrozenStepsAndStillAgrees) {
  const std::vector<ParamSpec> specs = AllFrozen();
  for (const ZeroStage stage : kStages) {
    for (const bool announced : {false, true}) {
      ZeroConfig config = Config(stage);
      config.announce_gradients = announced;
      const auto ranks = MakeRanks(3, specs, config);
      const std::string before = ranks->StateBits(0);
      StepAndCheckBooks(*ranks, specs);
      EXPECT_TRUE(ranks->StateBits(2) == before);
      EXPECT_EQ(ranks->optimizer(0).steps_taken(), 1);
      for (const auto& report : ranks->Step({0.1, 0.1, 0.2})) {
        EXPECT_THAT(report, StatusIs(kPrecondition, HasSubstr("rank 2 has learning rate 0.2")));
      }
    }
  }
}

TEST(FrozenParametersTest, AGroupMayBeAllFrozen) {
  std::vector<ParamSpec> specs = Specs();
  for (ParamSpec& spec : specs) spec.group = spec.frozen ? 1 : 0;
  ZeroConfig config = Config(ZeroStage::kTwo);
  config.groups.resize(2);
  config.groups[1].learning_rate = 7;
  const auto ranks = MakeRanks(2, specs, config);
  const auto plain = MakeRanks(2, Specs(), Config(ZeroStage::kTwo));
  StepAndCheckBooks(*ranks, specs);
  StepAndCheckBooks(*plain, specs);
  EXPECT_TRUE(ranks->StateBits(1) == plain->StateBits(1));
}

}  // namespace
}  // namespace rz
