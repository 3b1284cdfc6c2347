#include "tools/plan/plan_config.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Optional;

absl::StatusOr<PlanConfig> Read(const std::vector<std::string>& arguments) {
  FlagSet flags("rz_plan", "");
  PlanFlags plan_flags;
  plan_flags.Declare(&flags);
  if (const absl::Status status = flags.Parse(arguments); !status.ok()) return status;
  return plan_flags.Read(flags);
}

TEST(ParseParameterCountTest, WhatPeopleWrite) {
  for (const char* text : {"7500000000", "7.5G", "7.5g", "7.5B", "7.5b", "7500M", "7.5e9"}) {
    EXPECT_EQ(ParseParameterCount(text).value_or(0), 7'500'000'000) << text;
  }
  EXPECT_EQ(ParseParameterCount("1T").value_or(0), 1'000'000'000'000);
  EXPECT_EQ(ParseParameterCount("1").value_or(0), 1);
}

TEST(ParseParameterCountTest, WhatIsNoCount) {
  for (const char* text : {"", "0", "-7", "1.5", "7,500", "B", "7.5X", "nan", "inf", "1e300",
                           "10000000000001", "7.5GB"}) {
    EXPECT_THAT(ParseParameterCount(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--params")))
        << text;
  }
}

TEST(PlanConfigTest, ParametersAndRanksAreEnough) {
  ASSERT_OK_AND_ASSIGN(const PlanConfig config, Read({"--params", "7.5G", "--ranks", "64"}));
  EXPECT_EQ(config.model.parameters, 7'500'000'000);
  EXPECT_EQ(config.model.world, 64);
  EXPECT_EQ(config.model.dtype, DType::kBFloat16);
  EXPECT_EQ(config.model.optimizer_states, 2);
  EXPECT_EQ(config.budget(), std::nullopt);
  EXPECT_EQ(config.machine.flops, std::nullopt);
  EXPECT_EQ(config.machine.bandwidth, std::nullopt);
  EXPECT_THAT(config.routes.reduce_scatter.wire, Optional(DType::kBFloat16));
  EXPECT_THAT(config.routes.all_reduce.wire, Optional(DType::kBFloat16));
  EXPECT_THAT(config.routes.all_gather.wire, Optional(DType::kBFloat16));
}

TEST(PlanConfigTest, BothAreNeeded) {
  EXPECT_THAT(Read({"--params", "7G"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--ranks is needed")));
  EXPECT_THAT(Read({"--ranks", "7"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--params is needed")));
}

TEST(PlanConfigTest, StatesAreThoseOfTheOptimizer) {
  const auto states = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--params", "1G", "--ranks", "2"});
    return Read(arguments)->model.optimizer_states;
  };
  EXPECT_EQ(states({"--optimizer", "Adam"}), 2);
  EXPECT_EQ(states({"--optimizer", "SGD"}), 0);
  EXPECT_EQ(states({"--optimizer", "SGD", "--momentum", "0.9"}), 1);
  EXPECT_EQ(states({"--optimizer", "Lion"}), 1);
  EXPECT_EQ(states({"--optimizer", "Adagrad"}), 1);
}

TEST(PlanConfigTest, SizesAreDecimal) {
  ASSERT_OK_AND_ASSIGN(const PlanConfig config,
                       Read({"--params", "1G", "--ranks", "2", "--memory", "80G", "--activations",
                             "20G", "--bandwidth", "25G", "--flops", "150T", "--tokens", "8192"}));
  EXPECT_THAT(config.memory, Optional(80'000'000'000));
  EXPECT_THAT(config.budget(), Optional(60'000'000'000));
  EXPECT_THAT(config.machine.bandwidth, Optional(25e9));
  EXPECT_THAT(config.machine.flops, Optional(150e12));
  EXPECT_EQ(config.machine.tokens, 8192);
}

TEST(PlanConfigTest, ARingThatKeepsItsPromiseCarriesFloat32Sums) {
  ASSERT_OK_AND_ASSIGN(const PlanConfig config,
                       Read({"--params", "1G", "--ranks", "8", "--algo", "reduce_scatter:ring"}));
  EXPECT_THAT(config.routes.reduce_scatter.wire, Optional(DType::kFloat32));
  EXPECT_THAT(config.routes.all_gather.wire, Optional(DType::kBFloat16));
}

TEST(PlanConfigTest, ThousandsOfRanksHaveRoutes) {
  ASSERT_OK_AND_ASSIGN(const PlanConfig config, Read({"--params", "1T", "--ranks", "65536"}));
  EXPECT_TRUE(config.routes.reduce_scatter.least_bytes);
  EXPECT_TRUE(config.routes.all_gather.least_bytes);
}

TEST(PlanConfigTest, WhatCannotBeNamesItsFlag) {
  struct Case {
    std::vector<std::string> arguments;
    std::string flag;
  };
  for (const Case& bad : std::vector<Case>{
           {{"--memory", "0"}, "--memory"},
           {{"--activations", "1G"}, "--activations"},
           {{"--memory", "1G", "--activations", "1G"}, "--activations"},
           {{"--bandwidth", "0"}, "--bandwidth"},
           {{"--flops", "0"}, "--flops"},
           {{"--tokens", "8"}, "--flops"},
           {{"--momentum", "0.9"}, "--momentum"},
           {{"--ranks", "0"}, "--ranks"},
           {{"--ranks", "65537"}, "--ranks"},
           {{"--algo", "reduce_scatter:telepathy"}, "telepathy"},
           {{"--rank", "8"}, "--ranks"},
       }) {
    std::vector<std::string> arguments = {"--params", "1G", "--ranks", "8"};
    arguments.insert(arguments.end(), bad.arguments.begin(), bad.arguments.end());
    EXPECT_THAT(Read(arguments).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.flag)));
  }
}

}  // namespace
}  // namespace rz
