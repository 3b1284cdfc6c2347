#include "optimizer/kernels/optimizer_kernel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/kernels/convert.h"
#include "gmock/gmock.h"
#include "optimizer/kernels/optimizer_config.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DType kPairDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

struct Element {
  double p = 0;
  std::array<double, kMaxOptimizerStates> states = {};
};

// The published formulas in double, each with numbers that use all of it.
struct Optimizer {
  const char* name;
  OptimizerConfig config;
  Element (*oracle)(const OptimizerConfig& c, const StepNumbers& n, double g, Element old);
};

Element Adam(const OptimizerConfig& c, const StepNumbers& n, double g, Element e) {
  const bool decoupled = c.kind == OptimizerKind::kAdamW;
  if (!decoupled) g += c.weight_decay * e.p;
  e.states[0] = c.beta1 * e.states[0] + (1 - c.beta1) * g;
  e.states[1] = c.beta2 * e.states[1] + (1 - c.beta2) * g * g;
  const double m_hat = e.states[0] / (1 - std::pow(c.beta1, n.step));
  const double v_hat = e.states[1] / (1 - std::pow(c.beta2, n.step));
  if (decoupled) e.p -= n.learning_rate * c.weight_decay * e.p;
  e.p -= n.learning_rate * m_hat / (std::sqrt(v_hat) + c.epsilon);
  return e;
}

Element Sgd(const OptimizerConfig& c, const StepNumbers& n, double g, Element e) {
  g += c.weight_decay * e.p;
  double direction = g;
  if (c.momentum != 0) {
    e.states[0] = c.momentum * e.states[0] + (1 - (n.step == 1 ? 0 : c.dampening)) * g;
    direction = c.nesterov ? g + c.momentum * e.states[0] : e.states[0];
  }
  e.p -= n.learning_rate * direction;
  return e;
}

Element Lion(const OptimizerConfig& c, const StepNumbers& n, double g, Element e) {
  const double direction = c.beta1 * e.states[0] + (1 - c.beta1) * g;
  e.p -= n.learning_rate * ((direction > 0) - (direction < 0) + c.weight_decay * e.p);
  e.states[0] = c.beta2 * e.states[0] + (1 - c.beta2) * g;
  return e;
}

Element Adagrad(const OptimizerConfig& c, const StepNumbers& n, double g, Element e) {
  g += c.weight_decay * e.p;
  e.states[0] += g * g;
  const double lr = n.learning_rate / (1 + static_cast<double>(n.step - 1) * c.learning_rate_decay);
  e.p -= lr * g / (std::sqrt(e.states[0]) + c.epsilon);
  return e;
}

OptimizerConfig With(OptimizerKind kind, double momentum = 0, double dampening = 0,
                     bool nesterov = false) {
  OptimizerConfig config = DefaultsOf(kind);
  config.weight_decay = 0.125;
  config.learning_rate_decay = 0.25;
  config.momentum = momentum;
  config.dampening = dampening;
  config.nesterov = nesterov;
  return config;
}

const Optimizer kOptimizers[] = {
    {"adamw", With(OptimizerKind::kAdamW), Adam},
    {"adam", With(OptimizerKind::kAdam), Adam},
    {"sgd", With(OptimizerKind::kSgd), Sgd},
    {"momentum", With(OptimizerKind::kSgd, 0.9, 0.25), Sgd},
    {"nesterov", With(OptimizerKind::kSgd, 0.9, 0, true), Sgd},
    {"lion", With(OptimizerKind::kLion), Lion},
    {"adagrad", With(OptimizerKind::kAdagrad), Adagrad},
};

StepNumbers StepNumber(int64_t t) { return {.learning_rate = 1e-3, .step = t, .grad_scale = 0.75}; }

// A shard with its arrays `offset` bytes off any alignment.
class Shard {
 public:
  Shard(DType gradient, DType working, size_t count, size_t offset, uint32_t seed)
      : count_(count),
        offset_(offset),
        gradient_(count * SizeOf(gradient) + offset),
        master_(count * 4 + offset),
        working_(count * SizeOf(working) + offset) {
    for (auto& state : states_) state.resize(master_.size());
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> draw(count);
    const auto fill = [&](DType dtype, std::vector<unsigned char>& to, float scale, bool positive) {
      for (float& x : draw) x = scale * (positive ? std::fabs(normal(random)) : normal(random));
      ConvertFromFloat(dtype, to.data() + offset, draw.data(), count);
    };
    fill(gradient, gradient_, 0.1f, false);
    fill(DType::kFloat32, master_, 1.0f, false);
    // As Adagrad's too, which is a sum of squares.
    fill(DType::kFloat32, states_[0], 0.05f, true);
    fill(DType::kFloat32, states_[1], 0.01f, true);
  }

  void Update(const OptimizerKernel& kernel, const StepConstants& step) {
    kernel.Update(step, gradient(), master(), {state(0), state(1)}, working(), count_);
  }

  // `count` elements from `begin` on.
  void UpdatePart(const OptimizerKernel& kernel, const StepConstants& step, DType gradient_dtype,
                  DType working_dtype, size_t begin, size_t count) {
    kernel.Update(step, static_cast<char*>(gradient()) + begin * SizeOf(gradient_dtype),
                  master() + begin, {state(0) + begin, state(1) + begin},
                  static_cast<char*>(working()) + begin * SizeOf(working_dtype), count);
  }

  void* gradient() { return gradient_.data() + offset_; }
  float* master() { return reinterpret_cast<float*>(master_.data() + offset_); }
  float* state(size_t i) { return reinterpret_cast<float*>(states_[i].data() + offset_); }
  void* working() { return working_.data() + offset_; }

  static std::vector<float> Floats(DType dtype, const void* from, size_t count) {
    std::vector<float> floats(count);
    ConvertToFloat(dtype, floats.data(), from, count);
    return floats;
  }

  Element At(size_t i) { return {master()[i], {state(0)[i], state(1)[i]}}; }

  uint32_t Crc() const {
    uint32_t crc = 0;
    for (const auto* bytes : {&master_, &states_[0], &states_[1], &working_}) {
      crc = Crc32c(crc, bytes->data(), bytes->size());
    }
    return crc;
  }

 private:
  size_t count_, offset_;
  std::vector<unsigned char> gradient_, master_, working_;
  std::array<std::vector<unsigned char>, kMaxOptimizerStates> states_;
};

class OptimizerKernelTest
    : public ::testing::TestWithParam<std::tuple<SimdLevel, size_t, DType, DType>> {
 protected:
  SimdLevel level() const { return std::get<0>(GetParam()); }
  const Optimizer& optimizer() const { return kOptimizers[std::get<1>(GetParam())]; }
  DType gradient() const { return std::get<2>(GetParam()); }
  DType working() const { return std::get<3>(GetParam()); }
  StepConstants Constants(int64_t t) const {
    return ConstantsOf(optimizer().config, StepNumber(t));
  }
  OptimizerKernel Kernel(SimdLevel level) const {
    return *OptimizerKernel::Create(RuleOf(optimizer().config), gradient(), working(), level);
  }
};

TEST_P(OptimizerKernelTest, AgreesWithTheFormulaInDouble) {
  constexpr size_t kCount = 10007;
  for (int64_t t : {1, 2, 1000}) {
    Shard shard(gradient(), working(), kCount, 0, 3);
    const std::vector<float> g = Shard::Floats(gradient(), shard.gradient(), kCount);
    std::vector<Element> old;
    for (size_t i = 0; i < kCount; ++i) old.push_back(shard.At(i));
    shard.Update(Kernel(level()), Constants(t));
    for (size_t i = 0; i < kCount; ++i) {
      const Element expected =
          optimizer().oracle(optimizer().config, StepNumber(t), 0.75 * g[i], old[i]);
      const Element found = shard.At(i);
      for (size_t s = 0; s < kMaxOptimizerStates; ++s) {
        ASSERT_NEAR(found.states[s], expected.states[s], 3e-7 * (1 + std::fabs(old[i].p)))
            << t << " " << i;
      }
      ASSERT_NEAR(found.p, expected.p,
                  3e-7 * std::fabs(expected.p) + 3e-6 * std::fabs(expected.p - old[i].p))
          << t << " " << i;
    }
  }
}

TEST_P(OptimizerKernelTest, WorkingWeightsAreTheRoundedMaster) {
  constexpr size_t kCount = 1001;
  Shard shard(gradient(), working(), kCount, 0, 4);
  shard.Update(Kernel(level()), Constants(1));
  std::vector<unsigned char> expected(kCount * SizeOf(working()));
  ConvertFromFloat(working(), expected.data(), shard.master(), kCount);
  EXPECT_EQ(std::memcmp(shard.working(), expected.data(), expected.size()), 0);
}

TEST_P(OptimizerKernelTest, OnlyTheRulesOwnStatesAreTouched) {
  constexpr size_t kCount = 37;
  Shard shard(gradient(), working(), kCount, 0, 4), untouched(gradient(), working(), kCount, 0, 4);
  const OptimizerKernel kernel = Kernel(level());
  StateAddresses states = {};
  const size_t count = StateCount(optimizer().config);
  for (size_t s = 0; s < count; ++s) states[s] = shard.state(s);
  kernel.Update(Constants(1), shard.gradient(), shard.master(), states, shard.working(), kCount);
  for (size_t s = 0; s < kMaxOptimizerStates; ++s) {
    EXPECT_EQ(std::memcmp(shard.state(s), untouched.state(s), kCount * 4) != 0, s < count) << s;
  }
}

TEST_P(OptimizerKernelTest, PaddingStaysZero) {
  constexpr size_t kCount = 19;
  std::vector<unsigned char> gradient_bytes(kCount * SizeOf(gradient()));
  std::vector<float> master(kCount), m(kCount), v(kCount);
  std::vector<unsigned char> working_bytes(kCount * SizeOf(working()));
  for (int64_t t = 1; t <= 3; ++t) {
    Kernel(level()).Update(Constants(t), gradient_bytes.data(), master.data(), {m.data(), v.data()},
                           working_bytes.data(), kCount);
  }
  for (const auto& array : {master, m, v}) {
    EXPECT_EQ(array, std::vector<float>(kCount));
  }
  EXPECT_EQ(Shard::Floats(working(), working_bytes.data(), kCount), std::vector<float>(kCount));
}

TEST_P(OptimizerKernelTest, SameBitsAsPortableAtAnyCountAndAlignment) {
  const OptimizerKernel portable = Kernel(SimdLevel::kPortable);
  const OptimizerKernel kernel = Kernel(level());
  for (size_t count = 0; count <= 40; ++count) {
    for (size_t offset : {0, 1, 4}) {
      Shard a(gradient(), working(), count, offset, count),
          b(gradient(), working(), count, offset, count);
      for (int64_t t = 1; t <= 3; ++t) {
        a.Update(portable, Constants(t));
        b.Update(kernel, Constants(t));
      }
      ASSERT_EQ(a.Crc(), b.Crc()) << count << " at offset " << offset;
    }
  }
}

bool NansAreCanonical(const float* values, size_t count) {
  return std::all_of(values, values + count, [](float x) {
    return !std::isnan(x) || std::bit_cast<uint32_t>(x) == 0x7fc00000u;
  });
}

TEST_P(OptimizerKernelTest, SameBitsAsPortableForAnyBitPatterns) {
  constexpr size_t kCount = 20011;
  const auto run = [&](SimdLevel level) {
    Shard shard(gradient(), working(), kCount, 0, 1);
    std::mt19937 random(11);
    const auto scramble = [&](void* to, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i) {
        static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(random());
      }
    };
    scramble(shard.gradient(), kCount * SizeOf(gradient()));
    scramble(shard.master(), kCount * 4);
    scramble(shard.state(0), kCount * 4);
    scramble(shard.state(1), kCount * 4);
    // NaN meeting NaN with another payload, in every pair of operands.
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t nan = 0x7f800001u + static_cast<uint32_t>(i);
      if (i & 1) shard.master()[i] = std::bit_cast<float>(nan);
      if (i & 2) shard.state(0)[i] = std::bit_cast<float>(nan + 100);
      if (i & 4) shard.state(1)[i] = std::bit_cast<float>(nan + 200);
      if (i & 8) {
        std::memset(static_cast<char*>(shard.gradient()) + i * SizeOf(gradient()), 0xff,
                    SizeOf(gradient()));
      }
    }
    // Infinities that meet.
    for (size_t i = 64; i < 80; ++i) {
      const float infinity = std::numeric_limits<float>::infinity();
      if (i & 1) shard.master()[i] = infinity;
      if (i & 2) shard.state(0)[i] = -infinity;
      if (i & 4) shard.state(1)[i] = infinity;
      const float g = i & 8 ? infinity : 1.0f;
      ConvertFromFloat(gradient(), static_cast<char*>(shard.gradient()) + i * SizeOf(gradient()),
                       &g, 1);
    }
    shard.Update(Kernel(level), Constants(1));
    EXPECT_TRUE(NansAreCanonical(shard.master(), kCount));
    for (size_t s = 0; s < StateCount(optimizer().config); ++s) {
      EXPECT_TRUE(NansAreCanonical(shard.state(s), kCount));
    }
    return shard.Crc();
  };
  EXPECT_EQ(run(level()), run(SimdLevel::kPortable));
}

TEST_P(OptimizerKernelTest, NanOfAGradientIsCanonicalInEverythingThatDependsOnIt) {
  const float nan = std::bit_cast<float>(0xff812345u);  // signaling, negative, with a payload
  const auto canonical = [](float x) { return std::bit_cast<uint32_t>(x) == 0x7fc00000u; };
  constexpr size_t kCount = 37;
  for (size_t i = 0; i < kCount; ++i) {
    Shard shard(gradient(), working(), kCount, 0, 6);
    ConvertFromFloat(gradient(), static_cast<char*>(shard.gradient()) + i * SizeOf(gradient()),
                     &nan, 1);
    shard.master()[(i + 1) % kCount] = nan;
    shard.Update(Kernel(level()), Constants(1));
    for (size_t s = 0; s < StateCount(optimizer().config); ++s) {
      EXPECT_TRUE(canonical(shard.state(s)[i]));
    }
    EXPECT_TRUE(canonical(shard.master()[i]));
    EXPECT_TRUE(canonical(shard.master()[(i + 1) % kCount]));
    EXPECT_TRUE(std::isnan(Shard::Floats(working(), shard.working(), kCount)[i]));
    EXPECT_TRUE(std::isfinite(shard.master()[(i + 2) % kCount]));
  }
}

TEST_P(OptimizerKernelTest, BitsOfAnElementDoNotDependOnItsPlace) {
  constexpr size_t kCount = 150;
  const OptimizerKernel kernel = Kernel(level());
  Shard whole(gradient(), working(), kCount, 0, 9), pieces(gradient(), working(), kCount, 0, 9);
  whole.Update(kernel, Constants(5));
  for (size_t begin = 0, length = 1; begin < kCount; begin += length, ++length) {
    pieces.UpdatePart(kernel, Constants(5), gradient(), working(), begin,
                      std::min(length, kCount - begin));
  }
  EXPECT_EQ(whole.Crc(), pieces.Crc());
}

std::vector<std::tuple<SimdLevel, size_t, DType, DType>> AllKernels() {
  std::vector<std::tuple<SimdLevel, size_t, DType, DType>> all;
  for (SimdLevel level : SupportedSimdLevels()) {
    for (size_t optimizer = 0; optimizer < std::size(kOptimizers); ++optimizer) {
      for (DType gradient : kPairDTypes) {
        for (DType working : kPairDTypes) all.push_back({level, optimizer, gradient, working});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerKernelTest, ::testing::ValuesIn(AllKernels()),
                         [](const auto& info) {
                           return std::string(NameOf(std::get<0>(info.param))) + "_" +
                                  kOptimizers[std::get<1>(info.param)].name + "_" +
                                  std::string(NameOf(std::get<2>(info.param))) + "_" +
                                  std::string(NameOf(std::get<3>(info.param)));
                         });

TEST(WorkingWeightsTest, MayBeTheMaster) {
  for (const Optimizer& optimizer : kOptimizers) {
    const StepConstants constants = ConstantsOf(optimizer.config, StepNumber(1));
    ASSERT_OK_AND_ASSIGN(
        const OptimizerKernel kernel,
        OptimizerKernel::Create(RuleOf(optimizer.config), DType::kBFloat16, DType::kFloat32));
    Shard apart(DType::kBFloat16, DType::kFloat32, 77, 0, 2),
        same(DType::kBFloat16, DType::kFloat32, 77, 0, 2);
    apart.Update(kernel, constants);
    kernel.Update(constants, same.gradient(), same.master(), {same.state(0), same.state(1)},
                  same.master(), 77);
    EXPECT_EQ(std::memcmp(apart.master(), same.master(), 77 * 4), 0) << optimizer.name;
  }
}

TEST(OptimizerKernelCreateTest, OtherDTypesAreRefusedNamingBoth) {
  EXPECT_THAT(OptimizerKernel::Create(UpdateRule::kAdamW, DType::kFloat64, DType::kBFloat16),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("float64"), HasSubstr("bfloat16"))));
  EXPECT_THAT(OptimizerKernel::Create(UpdateRule::kSgd, DType::kFloat32, DType::kInt64),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("int64")));
  EXPECT_THAT(OptimizerKernel::Create(UpdateRule::kLion, DType::kFloat8E4M3, DType::kFloat32),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("float8_e4m3")));
}

}  // namespace
}  // namespace rz
