// 100 steps of every optimizer against those of PyTorch, and of Lion against its paper's program
// (tests/data/optimizer_steps.txt, made by tests/data/make_optimizer_tables.py).
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/kernels/optimizer_config.h"
#include "optimizer/kernels/optimizer_kernel.h"

namespace rz {
namespace {

constexpr char kTable[] = "tests/data/optimizer_steps.txt";
constexpr int64_t kSteps = 100;
constexpr size_t kElements = 6;

// Weights here are between 1/4 and 8: PyTorch fuses some multiply-adds and divides where these
// kernels multiply by a reciprocal, so each step may differ by an ulp.
constexpr double kMostUlps = 8;

// As in the script.
float Gradient(int64_t step, size_t element) {
  uint32_t x =
      static_cast<uint32_t>(step) * 2654435761u + static_cast<uint32_t>(element) * 40503u + 12345u;
  x = (x >> 7) * 2246822519u;
  return static_cast<float>(static_cast<int32_t>((x >> 16) % 257) - 128) / 64.0f;
}

float Start(size_t element) {
  return static_cast<float>(static_cast<int>(element) * 5 - 11) / 8.0f;
}

OptimizerConfig Make(OptimizerKind kind, double learning_rate, double weight_decay) {
  OptimizerConfig config = DefaultsOf(kind);
  config.learning_rate = learning_rate;
  config.weight_decay = weight_decay;
  return config;
}

OptimizerConfig Sgd(double weight_decay, double momentum, double dampening, bool nesterov) {
  OptimizerConfig config = Make(OptimizerKind::kSgd, 0.01, weight_decay);
  config.momentum = momentum;
  config.dampening = dampening;
  config.nesterov = nesterov;
  return config;
}

std::map<std::string, OptimizerConfig> Configs() {
  using K = OptimizerKind;
  OptimizerConfig betas = Make(K::kAdamW, 0.5, 0);
  betas.beta1 = 0.5;
  betas.beta2 = 0.75;
  betas.epsilon = 0.25;
  OptimizerConfig decay = Make(K::kAdagrad, 0.1, 0.125);
  decay.learning_rate_decay = 0.25;
  return {{"adamw", Make(K::kAdamW, 0.01, 0.125)},
          {"adamw_betas", betas},
          {"adam", Make(K::kAdam, 0.01, 0)},
          {"adam_l2", Make(K::kAdam, 0.01, 0.125)},
          {"sgd", Sgd(0.125, 0, 0, false)},
          {"momentum", Sgd(0, 0.9, 0, false)},
          {"dampening", Sgd(0.125, 0.9, 0.25, false)},
          {"nesterov", Sgd(0.125, 0.9, 0, true)},
          {"adagrad", Make(K::kAdagrad, 0.1, 0)},
          {"adagrad_decay", decay},
          {"lion", Make(K::kLion, 0.01, 0.125)}};
}

// weights[step] after each step, in float32 all over.
std::vector<std::array<float, kElements>> Train(const OptimizerConfig& config) {
  const OptimizerKernel kernel =
      *OptimizerKernel::Create(RuleOf(config), DType::kFloat32, DType::kFloat32);
  std::array<float, kElements> p, g, m = {}, v = {};
  for (size_t i = 0; i < kElements; ++i) p[i] = Start(i);
  std::vector<std::array<float, kElements>> weights = {p};
  for (int64_t step = 1; step <= kSteps; ++step) {
    for (size_t i = 0; i < kElements; ++i) g[i] = Gradient(step, i);
    kernel.Update(ConstantsOf(config, {.learning_rate = config.learning_rate, .step = step}),
                  g.data(), p.data(), {m.data(), v.data()}, p.data(), kElements);
    weights.push_back(p);
  }
  return weights;
}

TEST(OptimizerParityTest, WeightsAreThoseOfPyTorchOver100Steps) {
  std::ifstream table(kTable);
  ASSERT_TRUE(table.is_open()) << kTable;
  const std::map<std::string, OptimizerConfig> configs = Configs();
  std::map<std::string, int> compared;
  std::string line;
  while (std::getline(table, line)) {
    if (line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, word;
    size_t step = 0;
    words >> name >> step;
    ASSERT_EQ(configs.count(name), 1u) << name;
    const std::array<float, kElements> found = Train(configs.at(name))[step];
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_TRUE(words >> word) << line;
      const float expected = std::strtof(word.c_str(), nullptr);
      // An ulp of the weights' size, which near a crossing of zero is not the number's own.
      const double ulp = std::ldexp(std::fmax(std::fabs(expected), 0.25), -23);
      EXPECT_LE(std::fabs(found[i] - expected) / ulp, kMostUlps)
          << name << ", step " << step << ", element " << i << ": " << found[i] << " and "
          << expected;
    }
    ++compared[name];
  }
  EXPECT_EQ(compared.size(), configs.size());
  for (const auto& [name, count] : compared) EXPECT_EQ(count, 6) << name;
}

}  // namespace
}  // namespace rz
