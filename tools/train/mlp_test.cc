#include "tools/train/mlp.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "tools/train/model_testing.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

using ::rz::testing::WholeModel;
using ::testing::Each;
using ::testing::ElementsAre;

struct Samples {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
};

Samples RandomBatch(const MlpShape& shape, size_t size) {
  const RandomStream random(11, 0);
  Samples batch;
  batch.pixels.resize(size * static_cast<size_t>(shape.inputs()));
  for (size_t i = 0; i < batch.pixels.size(); ++i)
    batch.pixels[i] = static_cast<uint8_t>(random.Below(i, 256));
  for (size_t i = 0; i < size; ++i) {
    batch.labels.push_back(
        static_cast<uint8_t>(random.Below(1'000'000 + i, static_cast<uint64_t>(shape.classes()))));
  }
  return batch;
}

// Biases away from 0, so that their gradients matter.
std::unique_ptr<WholeModel> MakeMlp(const MlpShape& shape, int64_t max_batch) {
  absl::StatusOr<std::unique_ptr<Mlp>> mlp = Mlp::Create(shape, max_batch);
  if (!mlp.ok()) return nullptr;
  auto whole = std::make_unique<WholeModel>(*std::move(mlp), 3);
  for (size_t i = 1; i < whole->parameter_count(); i += 2) {
    for (float& x : whole->parameter(i)) x = 0.05f * static_cast<float>(i);
  }
  return whole;
}

// The same mathematics in double precision, without any care for speed.
double LossInDouble(const MlpShape& shape, WholeModel& mlp, const Samples& batch) {
  double loss = 0;
  for (size_t s = 0; s < batch.labels.size(); ++s) {
    const size_t inputs = static_cast<size_t>(shape.inputs());
    std::vector<double> x(batch.pixels.begin() + static_cast<ptrdiff_t>(s * inputs),
                          batch.pixels.begin() + static_cast<ptrdiff_t>((s + 1) * inputs));
    for (double& v : x) v /= 255;
    for (size_t layer = 0; layer < shape.layer_count(); ++layer) {
      const absl::Span<const float> weight = mlp.parameter(2 * layer);
      const absl::Span<const float> bias = mlp.parameter(2 * layer + 1);
      std::vector<double> y(bias.begin(), bias.end());
      for (size_t i = 0; i < x.size(); ++i) {
        for (size_t j = 0; j < y.size(); ++j) y[j] += x[i] * double{weight[i * y.size() + j]};
      }
      if (layer + 1 < shape.layer_count()) {
        for (double& v : y) v = v > 0 ? v : 0;
      }
      x = std::move(y);
    }
    double sum = 0;
    for (const double score : x) sum += std::exp(score);
    loss += std::log(sum) - x[batch.labels[s]];
  }
  return loss;
}

TEST(MlpTest, Forward_AgreesWithDoublePrecision) {
  for (const char* text : {"5-3", "17-9-4", "33-12-8-5-3"}) {
    ASSERT_OK_AND_ASSIGN(const MlpShape shape, ParseMlpShape(text));
    const std::unique_ptr<WholeModel> mlp = MakeMlp(shape, 10);
    ASSERT_NE(mlp, nullptr);
    const Samples batch = RandomBatch(shape, 10);
    const BatchResult result = mlp->Forward({batch.pixels, batch.labels});
    EXPECT_NEAR(result.loss_sum, LossInDouble(shape, *mlp, batch), 1e-5) << text;
  }
}

TEST(MlpTest, Backward_AgreesWithFiniteDifferences) {
  for (const char* text : {"5-3", "7-6-4", "9-8-7-5-3"}) {
    ASSERT_OK_AND_ASSIGN(const MlpShape shape, ParseMlpShape(text));
    const std::unique_ptr<WholeModel> mlp = MakeMlp(shape, 6);
    ASSERT_NE(mlp, nullptr);
    const Samples batch = RandomBatch(shape, 6);
    mlp->Forward({batch.pixels, batch.labels});
    mlp->Backward(0.5f);
    for (size_t p = 0; p < mlp->parameter_count(); ++p) {
      for (size_t i = 0; i < mlp->parameter(p).size(); ++i) {
        float& x = mlp->parameter(p)[i];
        const float at = x;
        constexpr float kStep = 0x1p-10f;
        x = at + kStep;
        const double above_x = double{x};
        const double above = LossInDouble(shape, *mlp, batch);
        x = at - kStep;
        const double slope = (above - LossInDouble(shape, *mlp, batch)) / (above_x - double{x});
        x = at;
        ASSERT_NEAR(mlp->gradient(p)[i], 0.5 * slope, 2e-4)
            << text << " parameter " << p << " element " << i;
      }
    }
  }
}

TEST(MlpTest, Layers_AreUsedOneAfterTheOtherAndBackInBackward) {
  ASSERT_OK_AND_ASSIGN(const MlpShape shape, ParseMlpShape("7-6-5-4"));
  const std::unique_ptr<WholeModel> mlp = MakeMlp(shape, 6);
  ASSERT_NE(mlp, nullptr);
  const Samples batch = RandomBatch(shape, 6);
  mlp->Forward({batch.pixels, batch.labels});
  EXPECT_THAT(mlp->used(), ElementsAre(0, 1, 2));
  mlp->Backward(1);
  EXPECT_THAT(mlp->used(), ElementsAre(2, 1, 0));
}

TEST(MlpTest, EmptyBatch_LossAndGradientsAreZero) {
  ASSERT_OK_AND_ASSIGN(const MlpShape shape, ParseMlpShape("7-6-4"));
  const std::unique_ptr<WholeModel> mlp = MakeMlp(shape, 6);
  ASSERT_NE(mlp, nullptr);
  const Samples batch = RandomBatch(shape, 6);
  mlp->Forward({batch.pixels, batch.labels});
  mlp->Backward(1);
  const BatchResult result = mlp->Forward({});
  mlp->Backward(1);
  EXPECT_EQ(result.loss_sum, 0);
  EXPECT_EQ(result.correct, 0);
  for (size_t p = 0; p < 4; ++p) EXPECT_THAT(mlp->gradient(p), Each(0.0f));
}

// The gradient of a batch is the sum of its samples' gradients: what lets ranks share a batch.
TEST(MlpTest, PartsOfABatch_AddUpToTheWhole) {
  ASSERT_OK_AND_ASSIGN(const MlpShape shape, ParseMlpShape("20-16-4"));
  const std::unique_ptr<WholeModel> mlp = MakeMlp(shape, 9);
  ASSERT_NE(mlp, nullptr);
  const Samples batch = RandomBatch(shape, 9);
  const absl::Span<const uint8_t> pixels = batch.pixels;
  const absl::Span<const uint8_t> labels = batch.labels;
  const BatchResult whole = mlp->Forward({pixels, labels});
  mlp->Backward(1);
  const std::vector<float> expected(mlp->gradient(0).begin(), mlp->gradient(0).end());

  const BatchResult first = mlp->Forward({pixels.first(4 * 20), labels.first(4)});
  mlp->Backward(1);
  std::vector<float> sum(mlp->gradient(0).begin(), mlp->gradient(0).end());
  const BatchResult second = mlp->Forward({pixels.subspan(4 * 20), labels.subspan(4)});
  mlp->Backward(1);
  for (size_t i = 0; i < sum.size(); ++i) {
    ASSERT_NEAR(sum[i] + mlp->gradient(0)[i], expected[i], 1e-6);
  }
  EXPECT_DOUBLE_EQ(first.loss_sum + second.loss_sum, whole.loss_sum);
  EXPECT_EQ(first.correct + second.correct, whole.correct);
}

TEST(MlpTest, LargeScores_StayFinite) {
  ASSERT_OK_AND_ASSIGN(const MlpShape shape, ParseMlpShape("2-3"));
  const std::unique_ptr<WholeModel> mlp = MakeMlp(shape, 1);
  ASSERT_NE(mlp, nullptr);
  for (float& x : mlp->parameter(0)) x = 0;
  mlp->parameter(1)[0] = 1e6f;
  mlp->parameter(1)[1] = -1e6f;
  const std::vector<uint8_t> pixels = {255, 255};
  const std::vector<uint8_t> label = {1};
  const BatchResult result = mlp->Forward({pixels, label});
  mlp->Backward(1);
  EXPECT_DOUBLE_EQ(result.loss_sum, 2e6);
  EXPECT_EQ(result.correct, 0);
  EXPECT_EQ(mlp->gradient(1)[0], 1.0f);
  EXPECT_EQ(mlp->gradient(1)[1], -1.0f);
}

}  // namespace
}  // namespace rz
