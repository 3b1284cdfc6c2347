#include "optimizer/loss_scaler.h"

#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(LossScalerTest, AStaticScaleStays) {
  LossScaler scaler({.scale = 128});
  for (const bool overflow : {true, true, false, true}) {
    EXPECT_OK(scaler.Update(overflow));
    EXPECT_EQ(scaler.scale(), 128);
  }
}

TEST(LossScalerTest, TheDefaultIsDeepSpeeds) {
  LossScaler scaler(DynamicLossScale());
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_OK(scaler.Update(true));
  EXPECT_EQ(scaler.scale(), 65536) << "the hysteresis is 2";
  EXPECT_OK(scaler.Update(true));
  EXPECT_EQ(scaler.scale(), 32768);
  for (int i = 0; i < 999; ++i) EXPECT_OK(scaler.Update(false));
  EXPECT_EQ(scaler.scale(), 32768);
  EXPECT_OK(scaler.Update(false));
  EXPECT_OK(scaler.Update(false));
  EXPECT_EQ(scaler.scale(), 65536) << "the window is 1000";
}

TEST(LossScalerTest, AnOverflowAtTheMinimumIsAnErrorAndChangesNothing) {
  LossScaler scaler({.dynamic = true, .scale = 3, .hysteresis = 1, .minimum = 1});
  EXPECT_OK(scaler.Update(true));
  EXPECT_EQ(scaler.scale(), 1.5);
  EXPECT_OK(scaler.Update(true));
  EXPECT_EQ(scaler.scale(), 1) << "not below the minimum";
  const LossScaler::State before = scaler.state();
  EXPECT_THAT(scaler.Update(true), StatusIs(absl::StatusCode::kOutOfRange,
                                            AllOf(HasSubstr("overflow"), HasSubstr("bf16"))));
  EXPECT_EQ(scaler.state(), before);
}

TEST(LossScalerTest, GoesOnFromASavedState) {
  const LossScaleConfig config = {.dynamic = true, .scale = 1024, .window = 3};
  LossScaler whole(config), first(config), second(config);
  for (int i = 0; i < 40; ++i) {
    const bool overflow = i % 7 == 0 || i % 11 == 1;
    EXPECT_OK(whole.Update(overflow));
    EXPECT_OK((i < 20 ? first : second).Update(overflow));
    if (i == 19) second.set_state(first.state());
  }
  EXPECT_EQ(whole.state(), second.state());
}

// Against DeepSpeed's rules: tests/data/loss_scales.txt, made by
// tests/data/make_optimizer_tables.py.
TEST(LossScalerTest, ScalesAreDeepSpeedsOverTracesOfOverflows) {
  std::ifstream table("tests/data/loss_scales.txt");
  int traces = 0;
  std::string line;
  while (std::getline(table, line)) {
    if (line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, after;
    LossScaleConfig config = {.dynamic = true};
    words >> name >> config.scale >> config.window >> config.minimum >> config.hysteresis >>
        config.consecutive_hysteresis;
    ASSERT_OK(ValidateLossScale(config)) << line;
    LossScaler scaler(config);
    bool overflow = false;
    int64_t iteration = 0, count = 0;
    while (words >> overflow >> after >> count) {
      for (const int64_t end = iteration + count; iteration < end; ++iteration) {
        const absl::Status status = scaler.Update(overflow);
        ASSERT_EQ(status.ok(), after != "error") << name << " " << iteration;
        if (!status.ok()) continue;
        ASSERT_EQ(scaler.scale(), std::stod(after)) << name << " " << iteration;
      }
    }
    EXPECT_GT(iteration, 10) << name;
    ++traces;
  }
  EXPECT_EQ(traces, 4);
}

TEST(ValidateLossScaleTest, NamesTheFieldThatCannotBe) {
  struct Case {
    std::string field;
    std::function<void(LossScaleConfig*)> spoil;
  };
  const std::vector<Case> cases = {
      {"scale", [](LossScaleConfig* c) { c->scale = 0; }},
      {"scale", [](LossScaleConfig* c) { c->scale = kNan; }},
      {"window", [](LossScaleConfig* c) { c->window = 0; }},
      {"hysteresis", [](LossScaleConfig* c) { c->hysteresis = 0; }},
      {"minimum", [](LossScaleConfig* c) { c->minimum = 0; }},
      {"minimum", [](LossScaleConfig* c) { c->minimum = 65537; }},
  };
  EXPECT_OK(ValidateLossScale(DynamicLossScale()));
  for (const Case& bad : cases) {
    LossScaleConfig config = DynamicLossScale();
    bad.spoil(&config);
    EXPECT_THAT(ValidateLossScale(config),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.field)));
  }
}

}  // namespace
}  // namespace rz
