// Parameter groups: each parameter is updated by its own group's numbers, in every stage alike, and
// ranks that differ in them are told so.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/parameter_group.h"
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
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne,
                                 ZeroStage::kTwo, ZeroStage::kThree};
constexpr int kSteps = 3;

// Sizes about the chunks of 32 that a rank owns, so that chunks hold several groups.
std::vector<ParamSpec> Specs() {
  return {{"a.weight", {70}, 0, 0}, {"a.bias", {5}, 0, 1},    {"a.gain", {33}, 0, 2},
          {"b.weight", {97}, 1, 0}, {"b.nothing", {0}, 1, 2}, {"b.bias", {1}, 1, 1},
          {"c.bias", {200}, 2, 1}};
}

// Of which the last has no parameters.
std::vector<ParameterGroup> Groups() {
  return {{},
          {.learning_rate = 0.02, .lr_scale = 0.5, .weight_decay = 0},
          {.lr_scale = 3, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3},
          {.learning_rate = 7}};
}

ZeroConfig Config(ZeroStage stage, DType dtype) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtype;
  config.optimizer.weight_decay = 0.3;
  config.optimizer.learning_rate = 0.05;
  config.groups = Groups();
  config.tile_chunk = 32;
  config.reduce_bucket_size = 100;
  config.announce_gradients = true;
  return config;
}

float Initial(size_t index, size_t i) {
  return 0.5f * static_cast<float>(index + 1) - 0.01f * static_cast<float>(i);
}

void Initialize(SimRanks& ranks) {
  const auto initializer = [](size_t index, absl::Span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = Initial(index, i);
  };
  for (const absl::Status& status : ranks.Initialize(initializer)) ASSERT_OK(status);
}

void SetGradients(SimRanks& ranks, int step) {
  const std::vector<ParamSpec> specs = Specs();
  for (int rank = 0; rank < ranks.world(); ++rank) {
    for (size_t p = 0; p < specs.size(); ++p) {
      for (size_t i = 0; i < static_cast<size_t>(specs[p].shape[0]); ++i) {
        const auto n = static_cast<int64_t>(i * 7 + p * 3) + 11 * step + rank;
        ranks.SetGradient(rank, p, i, 0.125f * static_cast<float>(n % 41 - 20));
      }
    }
  }
}

// All working values of parameter `index` after some steps.
std::vector<float> Values(SimRanks& ranks, size_t index) {
  std::vector<float> values(static_cast<size_t>(Specs()[index].shape[0]));
  for (size_t i = 0; i < values.size(); ++i) values[i] = ranks.Parameter(0, index, i);
  return values;
}

std::unique_ptr<SimRanks> Train(int world, const ZeroConfig& config, std::vector<ParamSpec> specs,
                                const SimRanks::Options& options) {
  auto ranks = SimRanks::Create(world, "", specs, config);
  EXPECT_OK(ranks.status());
  Initialize(**ranks);
  for (int step = 1; step <= kSteps; ++step) {
    SetGradients(**ranks, step);
    for (const auto& report : (*ranks)->StepWith(options)) EXPECT_OK(report.status());
  }
  return *std::move(ranks);
}

StepOptions BySchedule(size_t) { return {}; }

// A model all of whose parameters have one group's numbers.
std::vector<ParamSpec> AllOfGroup(size_t group) {
  std::vector<ParamSpec> specs = Specs();
  for (ParamSpec& spec : specs) spec.group = group;
  return specs;
}

TEST(ParameterGroupsTest, EachParameterHasTheBitsOfAModelOfItsGroupAlone) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::vector<std::unique_ptr<SimRanks>> alone;
    for (size_t group = 0; group < Groups().size(); ++group) {
      ZeroConfig config = Config(ZeroStage::kDdp, dtype);
      const ParameterGroup own = config.groups[group];
      config.optimizer = OptimizerOf(config.optimizer, own);
      config.optimizer.learning_rate *= own.lr_scale;
      config.groups.clear();
      alone.push_back(Train(3, config, AllOfGroup(0), BySchedule));
    }
    for (const ZeroStage stage : kStages) {
      const auto ranks = Train(3, Config(stage, dtype), Specs(), BySchedule);
      for (size_t p = 0; p < Specs().size(); ++p) {
        EXPECT_EQ(Values(*ranks, p), Values(*alone[Specs()[p].group], p))
            << "stage " << stage << ", " << Specs()[p].name;
      }
    }
    EXPECT_NE(Values(*alone[0], 1), Values(*alone[1], 1));
  }
}

TEST(ParameterGroupsTest, AllStagesHaveTheSameBitsInAnyWorld) {
  for (const int world : {1, 2, 5}) {
    std::string expected;
    for (const ZeroStage stage : kStages) {
      for (const int64_t bucket : {1, 1000}) {
        ZeroConfig config = Config(stage, DType::kFloat16);
        config.reduce_bucket_size = bucket;
        const std::string bits = Train(world, config, Specs(), BySchedule)->StateBits(world - 1);
        if (expected.empty()) expected = bits;
        EXPECT_TRUE(bits == expected) << "stage " << stage << ", world " << world;
      }
    }
  }
}

TEST(ParameterGroupsTest, AStepsRateIsScaledAndGroupsRatesAreTakenAsTheyAre) {
  const std::vector<double> rates = {0.01, 0.005, 0.03, 0.01};
  const auto each = [&](size_t) { return StepOptions{.group_learning_rates = rates}; };
  const auto one = [](size_t) { return StepOptions{.learning_rate = 0.01}; };
  const ZeroConfig config = Config(ZeroStage::kTwo, DType::kBFloat16);
  const auto ranks = Train(2, config, Specs(), one);
  EXPECT_EQ(ranks->StateBits(0), Train(2, config, Specs(), each)->StateBits(0));
  EXPECT_EQ(ranks->optimizer(1).learning_rate(), 0.05);
  EXPECT_EQ(ranks->optimizer(1).learning_rate(1), 0.01);
  EXPECT_NEAR(ranks->optimizer(1).learning_rate(2), 0.15, 1e-15);
  ZeroOptimizer& optimizer = ranks->optimizer(0);
  EXPECT_THAT(optimizer.StartStep({.learning_rate = 1, .group_learning_rates = rates}),
              StatusIs(kInvalid, HasSubstr("beside a learning_rate")));
  const std::vector<double> few = {0.1, 0.1};
  EXPECT_THAT(optimizer.StartStep({.group_learning_rates = few}),
              StatusIs(kInvalid, AllOf(HasSubstr("has 2 rates"), HasSubstr("(4)"))));
  const std::vector<double> bad = {0.1, 0.1, -1, 0.1};
  EXPECT_THAT(optimizer.StartStep({.group_learning_rates = bad}),
              StatusIs(kInvalid, HasSubstr("-1 in group 2")));
}

TEST(ParameterGroupsTest, TheScheduleIsEveryGroups) {
  ZeroConfig config = Config(ZeroStage::kOne, DType::kFloat32);
  config.schedule = {.kind = ScheduleKind::kWarmupCosine, .warmup_steps = 2, .total_steps = 10};
  const auto ranks = Train(2, config, Specs(), BySchedule);
  const double ratio = ranks->optimizer(0).learning_rate() / 0.05;
  EXPECT_GT(ratio, 0.1);
  EXPECT_NEAR(ranks->optimizer(0).learning_rate(1), 0.02 * ratio * 0.5, 1e-12);
  EXPECT_NEAR(ranks->optimizer(0).learning_rate(2), 0.05 * ratio * 3, 1e-12);
}

TEST(ParameterGroupsTest, AGroupThatIsNotThereOrIsWronglySetIsNamed) {
  const auto create = [](const ZeroConfig& config) {
    return SimRanks::Create(2, "", Specs(), config).status();
  };
  ZeroConfig config = Config(ZeroStage::kOne, DType::kFloat32);
  config.groups.resize(2);
  EXPECT_THAT(create(config), StatusIs(kInvalid, AllOf(HasSubstr("'a.gain' is of group 2"),
                                                       HasSubstr("there are 2"))));
  config.groups = Groups();
  config.groups[1].weight_decay = -1;
  EXPECT_THAT(create(config), StatusIs(kInvalid, HasSubstr("group 1: weight_decay is -1")));
  config.groups = Groups();
  config.groups[3].lr_scale = -2;
  EXPECT_THAT(create(config), StatusIs(kInvalid, HasSubstr("group 3: lr_scale is -2")));
}

TEST(ParameterGroupsTest, RanksThatDifferInGroupsAreToldSo) {
  for (const ZeroStage stage : kStages) {
    const auto change = [](int rank, ZeroConfig* config) {
      if (rank == 1) config->groups[2].weight_decay = 0.123;
    };
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<SimRanks> ranks,
                         SimRanks::Create(3, "", Specs(), Config(stage, DType::kFloat32), change));
    for (const absl::Status& status : ranks->Initialize([](size_t, absl::Span<float>) {})) {
      EXPECT_THAT(status, StatusIs(kPrecondition, HasSubstr("rank 1 has parameter groups")));
    }
  }
}

TEST(ParameterGroupsTest, RanksThatDifferInTheRateOfOneGroupAreToldSo) {
  const std::vector<double> rates = {0.1, 0.1, 0.1, 0.1}, others = {0.1, 0.1, 0.2, 0.1};
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<SimRanks> ranks,
      SimRanks::Create(3, "", Specs(), Config(ZeroStage::kThree, DType::kFloat32)));
  Initialize(*ranks);
  const std::string before = ranks->StateBits(0);
  SetGradients(*ranks, 1);
  for (const auto& report : ranks->StepWith([&](size_t rank) {
         return StepOptions{.group_learning_rates = rank == 2 ? others : rates};
       })) {
    EXPECT_THAT(report, StatusIs(kPrecondition,
                                 HasSubstr("rank 2 has learning rates of parameter groups")));
  }
  EXPECT_TRUE(ranks->StateBits(0) == before);
}

}  // namespace
}  // namespace rz
