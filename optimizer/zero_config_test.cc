#include "optimizer/zero_config.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(ZeroStageTest, NamesParseBack) {
  for (const ZeroStage stage :
       {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree}) {
    EXPECT_THAT(ParseZeroStage(NameOf(stage)), Optional(stage));
  }
  EXPECT_THAT(ParseZeroStage("0"), Optional(ZeroStage::kDdp));
  EXPECT_THAT(ParseZeroStage("4"), Eq(std::nullopt));
}

TEST(ValidateConfigTest, DefaultsAreValid) { EXPECT_OK(ValidateConfig(ZeroConfig())); }

TEST(ValidateConfigTest, NamesTheFieldThatCannotBe) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    std::string field;
    std::function<void(ZeroConfig*)> spoil;
  };
  const std::vector<Case> cases = {
      {"beta1", [](ZeroConfig* c) { c->adamw.beta1 = 1; }},
      {"beta1", [](ZeroConfig* c) { c->adamw.beta1 = kNan; }},
      {"beta2", [](ZeroConfig* c) { c->adamw.beta2 = -0.1; }},
      {"epsilon", [](ZeroConfig* c) { c->adamw.epsilon = 0; }},
      {"epsilon", [](ZeroConfig* c) { c->adamw.epsilon = 1e-60; }},
      {"weight_decay", [](ZeroConfig* c) { c->adamw.weight_decay = -1; }},
      {"buckets_in_flight", [](ZeroConfig* c) { c->buckets_in_flight = 0; }},
      {"ledger", [](ZeroConfig* c) { c->ledger = nullptr; }},
  };
  for (const Case& bad : cases) {
    ZeroConfig config;
    bad.spoil(&config);
    EXPECT_THAT(ValidateConfig(config),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.field)));
  }
}

TEST(ValidateConfigTest, WhatIsKnownButNotRunIsNamed) {
  ZeroConfig config;
  config.stage = ZeroStage::kThree;
  EXPECT_THAT(ValidateConfig(config),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("stage 3")));
  config.stage = ZeroStage::kOne;
  config.dtype = DType::kInt32;
  EXPECT_THAT(ValidateConfig(config),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("int32")));
}

}  // namespace
}  // namespace rz
