// What each optimizer's formula is known by, on one element.
#include <cmath>
#include <cstdint>

#include "gmock/gmock.h"
#include "optimizer/kernels/optimizer_config.h"
#include "optimizer/kernels/optimizer_kernel.h"

namespace rz {
namespace {

struct Element {
  double p = 0;
  double states[kMaxOptimizerStates] = {};
};

// One element of float32 through one step.
Element OneStep(const OptimizerConfig& config, const StepNumbers& numbers, float gradient,
                Element old) {
  const OptimizerKernel kernel =
      *OptimizerKernel::Create(RuleOf(config), DType::kFloat32, DType::kFloat32);
  float p = static_cast<float>(old.p), working;
  float states[] = {static_cast<float>(old.states[0]), static_cast<float>(old.states[1])};
  kernel.Update(ConstantsOf(config, numbers), &gradient, &p, {&states[0], &states[1]}, &working, 1);
  return {p, {states[0], states[1]}};
}

TEST(AdamWFormulaTest, FirstStepMovesByTheLearningRateAgainstTheSign) {
  OptimizerConfig config;
  config.weight_decay = 0;
  EXPECT_NEAR(OneStep(config, StepNumbers{.learning_rate = 1e-3}, 0.5f, {1.0}).p, 1.0 - 1e-3, 1e-7);
  EXPECT_NEAR(OneStep(config, StepNumbers{.learning_rate = 1e-3}, -2.0f, {1.0}).p, 1.0 + 1e-3,
              1e-7);
  EXPECT_EQ(OneStep(config, StepNumbers{.learning_rate = 1e-3}, 0.0f, {1.0}).p, 1.0);
}

// Coupled L2 lets the gradient's scale divide the decay; decoupled decay is lr * wd * p always.
TEST(AdamWFormulaTest, DecayIsDecoupledFromTheGradientInAdamWAlone) {
  OptimizerConfig config;
  config.weight_decay = 0.5;
  const StepNumbers numbers = {.learning_rate = 0.1};
  const Element decoupled = OneStep(config, numbers, 0.0f, {2.0});
  EXPECT_FLOAT_EQ(static_cast<float>(decoupled.p), 2.0f * 0.95f);
  EXPECT_EQ(decoupled.states[0], 0);
  config.kind = OptimizerKind::kAdam;
  const Element coupled = OneStep(config, numbers, 0.0f, {2.0});
  EXPECT_FLOAT_EQ(static_cast<float>(coupled.p), 2.0f - 0.1f);
  EXPECT_FLOAT_EQ(static_cast<float>(coupled.states[0]), 0.1f);
}

TEST(AdamWFormulaTest, WithoutBiasCorrectionTheFirstMomentIsSmall) {
  OptimizerConfig config;
  config.weight_decay = 0;
  config.bias_correction = false;
  // m = 0.1 g, v = 0.001 g^2: a step of 0.1 / sqrt(0.001) learning rates.
  EXPECT_NEAR(OneStep(config, {.learning_rate = 0.01}, 2.0f, {0}).p, -0.01 * 0.1 / std::sqrt(0.001),
              1e-7);
}

TEST(SgdFormulaTest, TheFirstGradientIsNotDampened) {
  OptimizerConfig config = DefaultsOf(OptimizerKind::kSgd);
  config.momentum = 0.5;
  config.dampening = 0.75;
  EXPECT_EQ(OneStep(config, {.learning_rate = 0.25, .step = 1}, 1.0f, {1.0}).p, 0.75);
  EXPECT_EQ(OneStep(config, {.learning_rate = 0.25, .step = 2}, 1.0f, {1.0, {1.0}}).p,
            1 - 0.25 * (0.5 + 0.25));
}

TEST(LionFormulaTest, ADirectionOfZeroLeavesTheWeight) {
  OptimizerConfig config = DefaultsOf(OptimizerKind::kLion);
  EXPECT_EQ(OneStep(config, StepNumbers{.learning_rate = 1e-3}, 0.0f, {1.0}).p, 1.0);
}

}  // namespace
}  // namespace rz
