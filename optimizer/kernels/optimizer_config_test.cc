#include "optimizer/kernels/optimizer_config.h"

#include <functional>
#include <limits>
#include <set>
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

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(OptimizerKindTest, NamesParseBackInAnyCase) {
  for (const OptimizerKind kind : kAllOptimizers) {
    EXPECT_THAT(ParseOptimizerKind(NameOf(kind)), Optional(kind));
    EXPECT_EQ(DefaultsOf(kind).kind, kind);
    EXPECT_OK(ValidateOptimizer(DefaultsOf(kind)));
  }
  EXPECT_THAT(ParseOptimizerKind("adamw"), Optional(OptimizerKind::kAdamW));
  EXPECT_THAT(ParseOptimizerKind("SGD"), Optional(OptimizerKind::kSgd));
  EXPECT_THAT(ParseOptimizerKind("adamax"), Eq(std::nullopt));
}

TEST(OptimizerConfigTest, TheNumberOfStatesFollowsFromTheNumbers) {
  const auto states = [](OptimizerKind kind) { return StateCount(DefaultsOf(kind)); };
  EXPECT_EQ(states(OptimizerKind::kAdamW), 2u);
  EXPECT_EQ(states(OptimizerKind::kAdam), 2u);
  EXPECT_EQ(states(OptimizerKind::kSgd), 0u);
  EXPECT_EQ(states(OptimizerKind::kLion), 1u);
  EXPECT_EQ(states(OptimizerKind::kAdagrad), 1u);
  OptimizerConfig momentum = DefaultsOf(OptimizerKind::kSgd);
  momentum.momentum = 0.9;
  EXPECT_EQ(StateCount(momentum), 1u);
  momentum.nesterov = true;
  EXPECT_EQ(StateCount(momentum), 1u);
}

TEST(OptimizerConfigTest, NamesTheFieldThatCannotBe) {
  struct Case {
    OptimizerKind kind;
    std::string field;
    std::function<void(OptimizerConfig*)> spoil;
  };
  using K = OptimizerKind;
  const std::vector<Case> cases = {
      {K::kAdamW, "beta1", [](OptimizerConfig* c) { c->beta1 = 1; }},
      {K::kAdam, "beta1", [](OptimizerConfig* c) { c->beta1 = kNan; }},
      {K::kLion, "beta2", [](OptimizerConfig* c) { c->beta2 = -0.1; }},
      {K::kAdamW, "epsilon", [](OptimizerConfig* c) { c->epsilon = 0; }},
      {K::kAdagrad, "epsilon", [](OptimizerConfig* c) { c->epsilon = 1e-60; }},
      {K::kAdagrad, "learning_rate_decay", [](OptimizerConfig* c) { c->learning_rate_decay = -1; }},
      {K::kSgd, "weight_decay", [](OptimizerConfig* c) { c->weight_decay = -1; }},
      {K::kSgd, "learning_rate", [](OptimizerConfig* c) { c->learning_rate = kInfinity; }},
      {K::kSgd, "momentum", [](OptimizerConfig* c) { c->momentum = kNan; }},
      {K::kSgd, "dampening", [](OptimizerConfig* c) { c->dampening = kInfinity; }},
      {K::kSgd, "nesterov", [](OptimizerConfig* c) { c->nesterov = true; }},
  };
  for (const Case& bad : cases) {
    OptimizerConfig config = DefaultsOf(bad.kind);
    bad.spoil(&config);
    EXPECT_THAT(ValidateOptimizer(config),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.field)));
  }
}

TEST(OptimizerConfigTest, FingerprintsOfDifferentNumbersDiffer) {
  const std::vector<std::function<void(OptimizerConfig*)>> changes = {
      [](OptimizerConfig*) {},
      [](OptimizerConfig* c) { c->kind = OptimizerKind::kAdam; },
      [](OptimizerConfig* c) { c->learning_rate = 2; },
      [](OptimizerConfig* c) { c->weight_decay = 2; },
      [](OptimizerConfig* c) { c->beta1 = 0.5; },
      [](OptimizerConfig* c) { c->beta2 = 0.5; },
      [](OptimizerConfig* c) { c->epsilon = 0.5; },
      [](OptimizerConfig* c) { c->bias_correction = false; },
      [](OptimizerConfig* c) { c->momentum = 0.5; },
      [](OptimizerConfig* c) { c->dampening = 0.5; },
      [](OptimizerConfig* c) { c->nesterov = true; },
      [](OptimizerConfig* c) { c->learning_rate_decay = 0.5; },
  };
  std::set<std::string> fingerprints;
  for (const auto& change : changes) {
    OptimizerConfig config;
    change(&config);
    fingerprints.insert(Fingerprint(config));
  }
  EXPECT_EQ(fingerprints.size(), changes.size());
}

TEST(ConstantsTest, AdagradsLearningRateDecaysByStep) {
  OptimizerConfig config = DefaultsOf(OptimizerKind::kAdagrad);
  config.learning_rate_decay = 0.5;
  EXPECT_EQ(ConstantsOf(config, {.learning_rate = 1, .step = 1}).step_size, 1.0f);
  EXPECT_EQ(ConstantsOf(config, {.learning_rate = 1, .step = 3}).step_size, 0.5f);
}

}  // namespace
}  // namespace rz
