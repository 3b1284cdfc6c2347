#include "optimizer/learning_rate.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(ScheduleTest, NamesParseBackInAnyCase) {
  for (const ScheduleKind kind : kAllSchedules) {
    EXPECT_THAT(ParseScheduleKind(NameOf(kind)), Optional(kind));
  }
  EXPECT_THAT(ParseScheduleKind("warmuplr"), Optional(ScheduleKind::kWarmup));
  EXPECT_THAT(ParseScheduleKind("OneCycle"), Eq(std::nullopt));
  EXPECT_THAT(ParseWarmupShape("log"), Optional(WarmupShape::kLogarithmic));
  EXPECT_THAT(ParseWarmupShape("linear"), Optional(WarmupShape::kLinear));
  EXPECT_THAT(ParseWarmupShape("cubic"), Eq(std::nullopt));
}

TEST(ScheduleTest, ConstantIsTheOptimizersRate) {
  for (const int64_t steps : {0, 1, 1000000}) EXPECT_EQ(LearningRate({}, 0.25, steps), 0.25);
}

TEST(ScheduleTest, WarmupIsLogarithmicByDefault) {
  const ScheduleConfig config = {.kind = ScheduleKind::kWarmup, .warmup_steps = 8, .min_rate = 1};
  EXPECT_EQ(LearningRate(config, 3, 0), 1);
  EXPECT_EQ(LearningRate(config, 3, 1), 1) << "ln(1) is 0";
  EXPECT_DOUBLE_EQ(LearningRate(config, 3, 4), 1 + 2 * std::log(4.0) / std::log(8.0));
  EXPECT_DOUBLE_EQ(LearningRate(config, 3, 8), 3);
  EXPECT_EQ(LearningRate(config, 3, 9), 3);
  EXPECT_EQ(LearningRate(config, 3, 1000), 3);
}

TEST(ScheduleTest, DecayEndsAtTheMinimumAndStaysThere) {
  const ScheduleConfig config = {.kind = ScheduleKind::kWarmupDecay,
                                 .warmup = WarmupShape::kLinear,
                                 .warmup_steps = 10,
                                 .total_steps = 30,
                                 .min_rate = 0.5,
                                 .max_rate = 1.5};
  EXPECT_EQ(LearningRate(config, 7, 6), 1.0);
  EXPECT_EQ(LearningRate(config, 7, 11), 1.5);
  EXPECT_EQ(LearningRate(config, 7, 21), 1.0);
  EXPECT_EQ(LearningRate(config, 7, 31), 0.5);
  EXPECT_EQ(LearningRate(config, 7, 100), 0.5);
}

TEST(ScheduleTest, CosineEndsAtItsLeastRatioAndStaysThere) {
  const ScheduleConfig config = {.kind = ScheduleKind::kWarmupCosine,
                                 .warmup = WarmupShape::kLinear,
                                 .warmup_steps = 10,
                                 .total_steps = 30,
                                 .warmup_min_ratio = 0.5,
                                 .cosine_min_ratio = 0.125};
  EXPECT_EQ(LearningRate(config, 8, 0), 0) << "before DeepSpeed's scheduler has started";
  EXPECT_EQ(LearningRate(config, 8, 1), 4);
  EXPECT_EQ(LearningRate(config, 8, 6), 6);
  EXPECT_NEAR(LearningRate(config, 8, 20), 4.5, 1e-12);
  EXPECT_NEAR(LearningRate(config, 8, 30), 1, 1e-12);
  EXPECT_NEAR(LearningRate(config, 8, 45), 1, 1e-12);
}

// Against DeepSpeed's formulas, driven as its engine does: tests/data/learning_rates.txt, made by
// tests/data/make_optimizer_tables.py.
TEST(ScheduleTest, RatesAreDeepSpeedsOver100Steps) {
  using K = ScheduleKind;
  constexpr WarmupShape kLinear = WarmupShape::kLinear;
  const std::map<std::string, ScheduleConfig> schedules = {
      {"warmup_log", {.kind = K::kWarmup, .warmup_steps = 40, .max_rate = 0.001}},
      {"warmup_linear",
       {.kind = K::kWarmup,
        .warmup = kLinear,
        .warmup_steps = 40,
        .min_rate = 0.0001,
        .max_rate = 0.001}},
      {"warmup_one_step", {.kind = K::kWarmup, .warmup_steps = 1, .max_rate = 0.001}},
      {"decay_log",
       {.kind = K::kWarmupDecay,
        .warmup_steps = 25,
        .total_steps = 90,
        .min_rate = 0.0001,
        .max_rate = 0.001}},
      {"decay_short",
       {.kind = K::kWarmupDecay,
        .warmup = kLinear,
        .warmup_steps = 40,
        .total_steps = 30,
        .max_rate = 0.001}},
      {"cosine_log",
       {.kind = K::kWarmupCosine, .warmup_steps = 25, .total_steps = 90, .warmup_min_ratio = 0.1}},
      {"cosine_linear",
       {.kind = K::kWarmupCosine,
        .warmup = kLinear,
        .warmup_steps = 10,
        .total_steps = 60,
        .cosine_min_ratio = 0.25}},
      {"cosine_short",
       {.kind = K::kWarmupCosine,
        .warmup = kLinear,
        .warmup_steps = 40,
        .total_steps = 30,
        .cosine_min_ratio = 0.25}},
  };
  std::ifstream table("tests/data/learning_rates.txt");
  size_t compared = 0;
  std::string line;
  while (std::getline(table, line)) {
    if (line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, word;
    words >> name;
    ASSERT_EQ(schedules.count(name), 1u) << name;
    for (int64_t step = 0; step < 100; ++step) {
      ASSERT_TRUE(words >> word) << name << " " << step;
      const double expected = std::strtod(word.c_str(), nullptr);
      EXPECT_NEAR(LearningRate(schedules.at(name), 0.002, step), expected, 4e-16 * expected)
          << name << ", step " << step;
    }
    ++compared;
  }
  EXPECT_EQ(compared, schedules.size());
}

TEST(ValidateScheduleTest, NamesTheFieldThatCannotBe) {
  struct Case {
    ScheduleKind kind;
    std::string field;
    std::function<void(ScheduleConfig*)> spoil;
  };
  using K = ScheduleKind;
  const std::vector<Case> cases = {
      {K::kWarmup, "warmup_steps", [](ScheduleConfig* c) { c->warmup_steps = 0; }},
      {K::kWarmupDecay, "total_steps", [](ScheduleConfig* c) { c->total_steps = 0; }},
      {K::kWarmupCosine, "total_steps", [](ScheduleConfig* c) { c->total_steps = -1; }},
      {K::kWarmup, "min_rate", [](ScheduleConfig* c) { c->min_rate = -1; }},
      {K::kWarmup, "max_rate",
       [](ScheduleConfig* c) { c->max_rate = std::numeric_limits<double>::infinity(); }},
      {K::kWarmupCosine, "warmup_min_ratio",
       [](ScheduleConfig* c) { c->warmup_min_ratio = std::nan(""); }},
      {K::kWarmupCosine, "cosine_min_ratio", [](ScheduleConfig* c) { c->cosine_min_ratio = -1; }},
  };
  EXPECT_OK(ValidateSchedule({}));
  for (const Case& bad : cases) {
    ScheduleConfig config = {.kind = bad.kind, .total_steps = 5000};
    EXPECT_OK(ValidateSchedule(config));
    bad.spoil(&config);
    EXPECT_THAT(ValidateSchedule(config),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(bad.field), HasSubstr("must be"))));
  }
}

}  // namespace
}  // namespace rz
