#include "tools/train/transformer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/memory/memory.h"
#include "tools/train/model_testing.h"
#include "tools/train/random_stream.h"

namespace rz {
namespace {

using ::rz::testing::WholeModel;
using ::testing::Each;
using ::testing::ElementsAre;

using Matrix = std::vector<std::vector<double>>;

struct Samples {
  std::vector<uint8_t> inputs;
  std::vector<uint8_t> labels;

  operator Batch() const { return {inputs, labels}; }
};

Samples RandomWindows(const TransformerShape& shape, size_t windows, uint64_t stream = 0) {
  const RandomStream random(11, stream);
  Samples samples;
  const size_t count = windows * static_cast<size_t>(shape.context);
  for (size_t i = 0; i < count; ++i) {
    const auto vocabulary = static_cast<uint64_t>(shape.vocabulary);
    samples.inputs.push_back(static_cast<uint8_t>(random.Below(2 * i, vocabulary)));
    samples.labels.push_back(static_cast<uint8_t>(random.Below(2 * i + 1, vocabulary)));
  }
  return samples;
}

// Its parameters away from 0 and 1, so that every gradient matters.
std::unique_ptr<WholeModel> MakeTransformer(const TransformerShape& shape, int64_t max_batch) {
  absl::StatusOr<std::unique_ptr<Transformer>> model = Transformer::Create(shape, max_batch);
  if (!model.ok()) return nullptr;
  auto whole = std::make_unique<WholeModel>(*std::move(model), 3);
  for (size_t p = 0; p < whole->parameter_count(); ++p) {
    const RandomStream random(5, p);
    for (size_t i = 0; i < whole->parameter(p).size(); ++i) {
      whole->parameter(p)[i] += 0.5f * (random.Uniform(i) - 0.5f);
    }
  }
  return whole;
}

// The same mathematics in double precision, without any care for speed.
class InDouble {
 public:
  InDouble(const TransformerShape& shape, WholeModel* model) : shape_(shape) {
    for (size_t p = 0; p < model->parameter_count(); ++p) {
      parameters_.emplace_back(model->parameter(p).begin(), model->parameter(p).end());
    }
  }

  std::vector<double>& parameter(size_t index) { return parameters_[index]; }

  double Loss(const Samples& samples) {
    double loss = 0;
    const auto context = static_cast<size_t>(shape_.context);
    for (size_t at = 0; at < samples.inputs.size(); at += context) {
      const Matrix scores = Scores(absl::MakeConstSpan(samples.inputs).subspan(at, context));
      for (size_t t = 0; t < context; ++t) {
        double sum = 0;
        for (const double score : scores[t]) sum += std::exp(score);
        loss += std::log(sum) - scores[t][samples.labels[at + t]];
      }
    }
    return loss;
  }

 private:
  absl::Span<const double> Next() { return parameters_[next_++]; }

  Matrix Scores(absl::Span<const uint8_t> window) {
    next_ = 0;
    const absl::Span<const double> token = Next();
    const absl::Span<const double> position = Next();
    const auto width = static_cast<size_t>(shape_.width);
    Matrix x(window.size(), std::vector<double>(width));
    for (size_t t = 0; t < window.size(); ++t) {
      for (size_t j = 0; j < width; ++j) {
        x[t][j] = token[window[t] * width + j] + position[t * width + j];
      }
    }
    for (int64_t layer = 0; layer < shape_.layers; ++layer) Block(&x);
    Matrix normal = Normal(x);
    const absl::Span<const double> head = Next();
    return shape_.tied ? Linear(normal, Transposed(head, width), {}) : Linear(normal, head, {});
  }

  void Block(Matrix* x) {
    const Matrix normal1 = Normal(*x);
    const absl::Span<const double> attention = Next();
    const Matrix attended = Attended(Linear(normal1, attention, Next()));
    const absl::Span<const double> projection = Next();
    Add(Linear(attended, projection, Next()), x);
    const Matrix normal2 = Normal(*x);
    const absl::Span<const double> expansion = Next();
    Matrix expanded = Linear(normal2, expansion, Next());
    for (std::vector<double>& row : expanded) {
      for (double& v : row) {
        v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      }
    }
    const absl::Span<const double> contraction = Next();
    Add(Linear(expanded, contraction, Next()), x);
  }

  Matrix Normal(const Matrix& x) {
    const absl::Span<const double> gain = Next();
    const absl::Span<const double> bias = Next();
    Matrix y = x;
    for (std::vector<double>& row : y) {
      const auto width = static_cast<double>(row.size());
      double mean = 0;
      for (const double v : row) mean += v / width;
      double variance = 0;
      for (const double v : row) variance += (v - mean) * (v - mean) / width;
      for (size_t j = 0; j < row.size(); ++j) {
        row[j] = (row[j] - mean) / std::sqrt(variance + 1e-5) * gain[j] + bias[j];
      }
    }
    return y;
  }

  static std::vector<double> Transposed(absl::Span<const double> matrix, size_t columns) {
    std::vector<double> transposed;
    for (size_t j = 0; j < columns; ++j) {
      for (size_t i = j; i < matrix.size(); i += columns) transposed.push_back(matrix[i]);
    }
    return transposed;
  }

  static Matrix Linear(const Matrix& x, absl::Span<const double> weight,
                       absl::Span<const double> bias) {
    const size_t out = weight.size() / x[0].size();
    Matrix y(x.size(), std::vector<double>(out));
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t j = 0; j < out; ++j) {
        if (!bias.empty()) y[t][j] = bias[j];
        for (size_t i = 0; i < x[t].size(); ++i) y[t][j] += x[t][i] * weight[i * out + j];
      }
    }
    return y;
  }

  Matrix Attended(const Matrix& qkv) const {
    const auto width = static_cast<size_t>(shape_.width);
    const size_t head_width = width / static_cast<size_t>(shape_.heads);
    Matrix out(qkv.size(), std::vector<double>(width));
    for (size_t begin = 0; begin < width; begin += head_width) {
      for (size_t t = 0; t < qkv.size(); ++t) {
        std::vector<double> weights(t + 1);
        double sum = 0;
        for (size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (size_t j = begin; j < begin + head_width; ++j) {
            score += qkv[t][j] * qkv[s][width + j];
          }
          weights[s] = std::exp(score / std::sqrt(static_cast<double>(head_width)));
          sum += weights[s];
        }
        for (size_t s = 0; s <= t; ++s) {
          for (size_t j = begin; j < begin + head_width; ++j) {
            out[t][j] += weights[s] / sum * qkv[s][2 * width + j];
          }
        }
      }
    }
    return out;
  }

  static void Add(const Matrix& from, Matrix* to) {
    for (size_t t = 0; t < from.size(); ++t) {
      for (size_t j = 0; j < from[t].size(); ++j) (*to)[t][j] += from[t][j];
    }
  }

  const TransformerShape shape_;
  std::vector<std::vector<double>> parameters_;
  size_t next_ = 0;
};

// Random shapes: up to two layers, of one to three heads.
TransformerShape RandomShape(uint64_t draw) {
  const RandomStream random(23, draw);
  TransformerShape shape;
  shape.layers = static_cast<int64_t>(1 + random.Below(0, 2));
  shape.heads = static_cast<int64_t>(1 + random.Below(1, 3));
  shape.width = shape.heads * static_cast<int64_t>(1 + random.Below(2, 4));
  shape.context = static_cast<int64_t>(1 + random.Below(3, 7));
  shape.vocabulary = static_cast<int64_t>(2 + random.Below(4, 7));
  shape.tied = random.Below(5, 2) == 1;
  return shape;
}

TEST(TransformerTest, Forward_AgreesWithDoublePrecision) {
  for (uint64_t draw = 0; draw < 30; ++draw) {
    const TransformerShape shape = RandomShape(draw);
    SCOPED_TRACE(absl::StrCat(shape.ToString(), " of ", shape.vocabulary));
    const std::unique_ptr<WholeModel> model = MakeTransformer(shape, 4);
    ASSERT_NE(model, nullptr);
    const Samples samples = RandomWindows(shape, 3);
    EXPECT_NEAR(model->Forward(samples).loss_sum, InDouble(shape, model.get()).Loss(samples), 1e-4);
  }
}

// Longer than a block of attention, wider than a vector, with edges.
TEST(TransformerTest, LongWindows_AgreeWithDoublePrecision) {
  const TransformerShape shape = {2, 3, 39, 131, 20};
  const std::unique_ptr<WholeModel> model = MakeTransformer(shape, 2);
  ASSERT_NE(model, nullptr);
  const Samples samples = RandomWindows(shape, 2);
  const double loss = InDouble(shape, model.get()).Loss(samples);
  EXPECT_NEAR(model->Forward(samples).loss_sum / loss, 1, 1e-6);
}

void ExpectSlopes(const TransformerShape& shape, size_t stride) {
  SCOPED_TRACE(absl::StrCat(shape.ToString(), " of ", shape.vocabulary));
  const std::unique_ptr<WholeModel> model = MakeTransformer(shape, 3);
  ASSERT_NE(model, nullptr);
  const Samples samples = RandomWindows(shape, 2);
  InDouble in_double(shape, model.get());
  model->Forward(samples);
  model->Backward(0.5f);
  size_t checked = 0;
  for (size_t p = 0; p < model->parameter_count(); ++p) {
    for (size_t i = p % stride; i < model->parameter(p).size(); i += stride) {
      double& x = in_double.parameter(p)[i];
      const double at = x;
      constexpr double kStep = 1e-5;
      x = at + kStep;
      const double above = in_double.Loss(samples);
      x = at - kStep;
      const double slope = (above - in_double.Loss(samples)) / (2 * kStep);
      x = at;
      ASSERT_NEAR(model->gradient(p)[i], 0.5 * slope, 1e-4 + 1e-4 * std::abs(slope))
          << model->model().parameters()[p].name << " element " << i;
      ++checked;
    }
  }
  EXPECT_GT(checked, 0u);
}

TEST(TransformerTest, Backward_AgreesWithFiniteDifferences) {
  for (uint64_t draw = 0; draw < 12; ++draw) ExpectSlopes(RandomShape(draw), 1);
}

TEST(TransformerTest, LongWindows_BackwardAgreesWithFiniteDifferences) {
  ExpectSlopes({1, 2, 18, 70, 5}, 131);
}

TEST(TransformerTest, LaterSymbol_DoesNotChangeEarlierScores) {
  const TransformerShape shape = {2, 2, 20, 70, 9};
  const std::unique_ptr<WholeModel> model = MakeTransformer(shape, 2);
  ASSERT_NE(model, nullptr);
  Samples samples = RandomWindows(shape, 2);
  model->Forward(samples);
  const std::vector<float> before(model->model().scores().begin(), model->model().scores().end());
  ASSERT_EQ(before.size(), 2u * 70 * 9);
  for (const size_t changed : {0, 1, 35, 63, 64, 69}) {
    uint8_t& symbol = samples.inputs[changed];
    symbol = static_cast<uint8_t>((symbol + 1) % 9);
    model->Forward(samples);
    const absl::Span<const float> after = model->model().scores();
    const size_t first = changed * 9;
    EXPECT_TRUE(
        std::equal(before.begin(), before.begin() + static_cast<ptrdiff_t>(first), after.begin()))
        << changed;
    EXPECT_NE(before[first], after[first]);
    // Nor those of the other window.
    EXPECT_TRUE(std::equal(before.begin() + 70 * 9, before.end(), after.begin() + 70 * 9));
    symbol = static_cast<uint8_t>((symbol + 8) % 9);
  }
}

TEST(TransformerTest, Units_AreUsedOneAfterTheOtherAndBackInBackward) {
  const TransformerShape shape = {2, 1, 4, 3, 5};
  const std::unique_ptr<WholeModel> model = MakeTransformer(shape, 1);
  ASSERT_NE(model, nullptr);
  const Samples samples = RandomWindows(shape, 1);
  model->Forward(samples);
  EXPECT_THAT(model->used(), ElementsAre(0, 1, 2, 3));
  model->Backward(1);
  EXPECT_THAT(model->used(), ElementsAre(3, 2, 1, 0));
}

TEST(TransformerTest, EmptyBatch_LossAndGradientsAreZero) {
  const TransformerShape shape = {2, 2, 8, 5, 6};
  const std::unique_ptr<WholeModel> model = MakeTransformer(shape, 2);
  ASSERT_NE(model, nullptr);
  model->Forward(RandomWindows(shape, 2));
  model->Backward(1);
  const BatchResult result = model->Forward({});
  model->Backward(1);
  EXPECT_EQ(result.loss_sum, 0);
  EXPECT_EQ(result.correct, 0);
  EXPECT_TRUE(model->model().scores().empty());
  for (size_t p = 0; p < model->parameter_count(); ++p) {
    EXPECT_THAT(model->gradient(p), Each(0.0f)) << p;
  }
}

// The gradient of a batch is the sum of its samples' gradients: what lets ranks share a batch.
TEST(TransformerTest, PartsOfABatch_AddUpToTheWhole) {
  const TransformerShape shape = {1, 2, 8, 6, 6};
  const std::unique_ptr<WholeModel> model = MakeTransformer(shape, 5);
  ASSERT_NE(model, nullptr);
  const Samples samples = RandomWindows(shape, 5);
  const absl::Span<const uint8_t> inputs = samples.inputs;
  const absl::Span<const uint8_t> labels = samples.labels;
  const BatchResult whole = model->Forward(samples);
  model->Backward(1);
  std::vector<std::vector<float>> left;
  for (size_t p = 0; p < model->parameter_count(); ++p) {
    left.emplace_back(model->gradient(p).begin(), model->gradient(p).end());
  }
  BatchResult sum;
  for (const auto& [begin, count] : {std::pair<size_t, size_t>{0, 2}, {2, 3}}) {
    const BatchResult part = model->Forward(
        {inputs.subspan(begin * 6, count * 6), labels.subspan(begin * 6, count * 6)});
    model->Backward(1);
    sum.loss_sum += part.loss_sum;
    sum.correct += part.correct;
    for (size_t p = 0; p < left.size(); ++p) {
      for (size_t i = 0; i < left[p].size(); ++i) left[p][i] -= model->gradient(p)[i];
    }
  }
  for (const std::vector<float>& values : left) {
    for (const float difference : values) ASSERT_NEAR(difference, 0, 1e-5);
  }
  EXPECT_DOUBLE_EQ(sum.loss_sum, whole.loss_sum);
  EXPECT_EQ(sum.correct, whole.correct);
}

TEST(TransformerTest, Workspace_IsCountedAsActivationsAndGivenBack) {
  const size_t before = MemoryLedger::Default()->Current(MemoryTag::kActivation);
  {
    ASSERT_OK_AND_ASSIGN(const auto model, Transformer::Create({1, 1, 8, 4, 5}, 3));
    // At least what a block keeps of its 12 rows.
    EXPECT_GE(MemoryLedger::Default()->Current(MemoryTag::kActivation) - before,
              size_t{12 * (8 * 16 + 4) * 4});
  }
  EXPECT_EQ(MemoryLedger::Default()->Current(MemoryTag::kActivation), before);
}

}  // namespace
}  // namespace rz
