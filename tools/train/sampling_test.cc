#include "tools/train/sampling.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

TEST(DrawSymbolTest, HasTheProbabilitiesOfTheSoftmax) {
  const std::vector<float> scores = {1, -2, 3, 2.5, -900};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<int> counts(scores.size());
    constexpr int kDraws = 200'000;
    const RandomStream random(1, 2);
    for (int i = 0; i < kDraws; ++i) {
      ++counts[DrawSymbol(scores, temperature, random.Uniform(static_cast<uint64_t>(i)))];
    }
    double sum = 0;
    for (const float score : scores) sum += std::exp(double{score} / temperature);
    for (size_t i = 0; i < scores.size(); ++i) {
      EXPECT_NEAR(counts[i] / double{kDraws}, std::exp(double{scores[i]} / temperature) / sum,
                  0.005)
          << temperature << " " << i;
    }
  }
}

TEST(DrawSymbolTest, TemperatureZero_TakesTheLikeliest) {
  for (const float uniform : {0.0f, 0.5f, 0.99999994f}) {
    EXPECT_EQ(DrawSymbol({1, 4, 3}, 0, uniform), 1u);
  }
}

TEST(DrawSymbolTest, EdgesOfTheInterval) {
  EXPECT_EQ(DrawSymbol({1, 1}, 1, 0.0f), 0u);
  EXPECT_EQ(DrawSymbol({1, 1}, 1, 0.49f), 0u);
  EXPECT_EQ(DrawSymbol({1, 1}, 1, 0.5f), 1u);
  EXPECT_EQ(DrawSymbol({1, 1}, 1, 0.99999994f), 1u);
  EXPECT_EQ(DrawSymbol({7}, 1, 0.5f), 0u);
}

}  // namespace
}  // namespace rz
