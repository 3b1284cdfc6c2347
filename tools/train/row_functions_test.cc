#include "tools/train/row_functions.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

using ::testing::Each;
using ::testing::ValuesIn;

std::vector<float> RandomFloats(size_t count, uint64_t stream, float scale = 4) {
  const RandomStream random(7, stream);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = (random.Uniform(i) - 0.5f) * scale;
  return values;
}

double GeluInDouble(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Everything each function writes for one width, one result after the other.
std::vector<float> AllResults(const RowFunctions& f, size_t width) {
  constexpr size_t kRows = 5;
  const size_t count = kRows * width;
  const std::vector<float> x = RandomFloats(count, 1);
  const std::vector<float> gain = RandomFloats(width, 2);
  const std::vector<float> bias = RandomFloats(width, 3);
  std::vector<float> all;
  const auto keep = [&all](const std::vector<float>& values) {
    all.insert(all.end(), values.begin(), values.end());
  };
  std::vector<float> y(count);
  std::vector<float> mean(kRows);
  std::vector<float> inverse(kRows);
  f.normalize(kRows, width, x.data(), gain.data(), bias.data(), y.data(),
              {mean.data(), inverse.data()});
  keep(y);
  keep(mean);
  keep(inverse);
  std::vector<float> dx = RandomFloats(count, 4);
  std::vector<float> gain_gradient(width);
  std::vector<float> bias_gradient(width);
  f.normalize_backward(kRows, width, x.data(), gain.data(), {mean.data(), inverse.data()}, y.data(),
                       dx.data(), gain_gradient.data(), bias_gradient.data());
  keep(dx);
  keep(gain_gradient);
  keep(bias_gradient);
  f.gelu(count, x.data(), y.data());
  keep(y);
  f.gelu_backward(count, x.data(), y.data());
  keep(y);
  std::vector<float> square = RandomFloats(width * width, 5);
  f.causal_softmax(width, 0.25f, square.data());
  keep(square);
  std::vector<float> square_gradient = RandomFloats(width * width, 6);
  f.causal_softmax_backward(width, 0.25f, square.data(), square_gradient.data());
  keep(square_gradient);
  y = x;
  const RowLoss loss = f.softmax(width, y.data());
  keep(y);
  keep({loss.largest, loss.sum});
  f.add_to_rows(kRows, width, bias.data(), x.data(), y.data());
  keep(y);
  f.sum_rows(kRows, width, y.data(), bias_gradient.data());
  keep(bias_gradient);
  f.fill_rows(kRows, width, bias.data(), y.data());
  keep(y);
  return all;
}

class RowFunctionsTest : public ::testing::TestWithParam<SimdLevel> {
 protected:
  const RowFunctions& functions_ = RowFunctionsOf(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Levels, RowFunctionsTest, ValuesIn(SupportedSimdLevels()),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST_P(RowFunctionsTest, EveryWidth_HasTheBitsOfThePortableLevel) {
  for (size_t width = 1; width <= 70; ++width) {
    const std::vector<float> expected = AllResults(RowFunctionsOf(SimdLevel::kPortable), width);
    EXPECT_EQ(AllResults(functions_, width), expected) << width;
  }
}

TEST_P(RowFunctionsTest, Exponential_IsExactToFloatAndNeverAboveOne) {
  for (float x = -86; x <= 0; x += 0.0037f) {
    float y = 0;
    functions_.exponential(1, &x, &y);
    ASSERT_NEAR(y / std::exp(double{x}), 1, 0x1p-22) << x;
    ASSERT_LE(y, 1.0f) << x;
  }
  const std::vector<float> x = {0, -0.0f, -100, -INFINITY, NAN};
  std::vector<float> y(x.size());
  functions_.exponential(x.size(), x.data(), y.data());
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  EXPECT_LT(y[2], 1e-37f);
  EXPECT_LT(y[3], 1e-37f);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST_P(RowFunctionsTest, Gelu_IsItsTanhForm) {
  for (float x = -12; x < 12; x += 0.01f) {
    float y = 0;
    functions_.gelu(1, &x, &y);
    ASSERT_NEAR(y, GeluInDouble(x), 2e-6) << x;
    float slope = 1;
    functions_.gelu_backward(1, &x, &slope);
    const double expected = (GeluInDouble(x + 1e-5) - GeluInDouble(x - 1e-5)) / 2e-5;
    ASSERT_NEAR(slope, expected, 2e-5) << x;
  }
}

TEST_P(RowFunctionsTest, Normalize_GivesMeanZeroAndVarianceOne) {
  for (const size_t width : {2, 15, 16, 17, 130}) {
    const std::vector<float> x = RandomFloats(width, 1, 100);
    const std::vector<float> ones(width, 1.0f);
    const std::vector<float> zeros(width, 0.0f);
    std::vector<float> y(width);
    float mean = 0;
    float inverse = 0;
    functions_.normalize(1, width, x.data(), ones.data(), zeros.data(), y.data(),
                         {&mean, &inverse});
    double sum = 0;
    double squares = 0;
    for (const float v : y) {
      sum += v;
      squares += double{v} * v;
    }
    EXPECT_NEAR(sum / static_cast<double>(width), 0, 1e-5);
    EXPECT_NEAR(squares / static_cast<double>(width), 1, 1e-4);
  }
}

TEST_P(RowFunctionsTest, CausalSoftmax_RowsSumToOneAndSeeNothingLater) {
  constexpr size_t kSize = 37;
  std::vector<float> scores = RandomFloats(kSize * kSize, 1, 200);
  // What is later must not matter, whatever it is.
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = i + 1; j < kSize; ++j) scores[i * kSize + j] = NAN;
  }
  functions_.causal_softmax(kSize, 0.5f, scores.data());
  for (size_t i = 0; i < kSize; ++i) {
    double sum = 0;
    for (size_t j = 0; j <= i; ++j) sum += scores[i * kSize + j];
    EXPECT_NEAR(sum, 1, 1e-6) << i;
    const auto row = scores.begin() + static_cast<ptrdiff_t>(i * kSize);
    EXPECT_THAT(std::vector<float>(row + static_cast<ptrdiff_t>(i) + 1, row + kSize), Each(0.0f));
  }
}

TEST_P(RowFunctionsTest, Softmax_NotANumberIsSeen) {
  for (const size_t at : {0, 3, 15, 16, 18}) {
    std::vector<float> scores(19, 1.0f);
    scores[at] = NAN;
    EXPECT_TRUE(std::isnan(functions_.softmax(scores.size(), scores.data()).sum)) << at;
  }
}

}  // namespace
}  // namespace rz
