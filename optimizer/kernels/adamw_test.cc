#include "optimizer/kernels/adamw.h"

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
#include "runtime/base/crc32c.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using rz::testing::IsOk;
using rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DType kPairDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

AdamWStep StepNumber(int t) {
  AdamWStep step;
  step.bias_correction1 = 1.0 - std::pow(step.beta1, t);
  step.bias_correction2 = 1.0 - std::pow(step.beta2, t);
  step.grad_scale = 0.75;
  return step;
}

// A shard with its arrays `offset` bytes off any alignment.
class Shard {
 public:
  Shard(DType gradient, DType working, size_t count, size_t offset, uint32_t seed)
      : count_(count),
        offset_(offset),
        gradient_(count * SizeOf(gradient) + offset),
        master_(count * 4 + offset),
        m_(master_.size()),
        v_(master_.size()),
        working_(count * SizeOf(working) + offset) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> draw(count);
    const auto fill = [&](DType dtype, std::vector<unsigned char>& to, float scale, bool positive) {
      for (float& x : draw) x = scale * (positive ? std::fabs(normal(random)) : normal(random));
      ConvertFromFloat(dtype, to.data() + offset, draw.data(), count);
    };
    fill(gradient, gradient_, 0.1f, false);
    fill(DType::kFloat32, master_, 1.0f, false);
    fill(DType::kFloat32, m_, 0.05f, false);
    fill(DType::kFloat32, v_, 0.01f, true);
  }

  void Update(const AdamW& adamw, const AdamWStep& step) {
    adamw.Update(step, gradient(), master(), m(), v(), working(), count_);
  }

  void* gradient() { return gradient_.data() + offset_; }
  float* master() { return reinterpret_cast<float*>(master_.data() + offset_); }
  float* m() { return reinterpret_cast<float*>(m_.data() + offset_); }
  float* v() { return reinterpret_cast<float*>(v_.data() + offset_); }
  void* working() { return working_.data() + offset_; }

  static std::vector<float> Floats(DType dtype, const void* from, size_t count) {
    std::vector<float> floats(count);
    ConvertToFloat(dtype, floats.data(), from, count);
    return floats;
  }

  uint32_t Crc() const {
    uint32_t crc = 0;
    for (const auto* bytes : {&master_, &m_, &v_, &working_}) {
      crc = Crc32c(crc, bytes->data(), bytes->size());
    }
    return crc;
  }

 private:
  size_t count_, offset_;
  std::vector<unsigned char> gradient_, master_, m_, v_, working_;
};

struct Element {
  double p, m, v;
};

// The formula of the papers in double.
Element Oracle(const AdamWStep& step, double gradient, Element old) {
  const double g = gradient * step.grad_scale;
  Element now;
  now.m = step.beta1 * old.m + (1 - step.beta1) * g;
  now.v = step.beta2 * old.v + (1 - step.beta2) * g * g;
  const double m_hat = now.m / step.bias_correction1;
  const double v_hat = now.v / step.bias_correction2;
  now.p =
      old.p - step.lr * step.weight_decay * old.p - step.lr * m_hat / (std::sqrt(v_hat) + step.eps);
  return now;
}

class AdamWTest : public ::testing::TestWithParam<std::tuple<SimdLevel, DType, DType>> {
 protected:
  SimdLevel level() const { return std::get<0>(GetParam()); }
  DType gradient() const { return std::get<1>(GetParam()); }
  DType working() const { return std::get<2>(GetParam()); }
  AdamW Kernel(SimdLevel level) const { return *AdamW::Create(gradient(), working(), level); }
};

TEST_P(AdamWTest, AgreesWithTheFormulaInDouble) {
  constexpr size_t kCount = 10007;
  for (int t : {1, 2, 1000}) {
    const AdamWStep step = StepNumber(t);
    Shard shard(gradient(), working(), kCount, 0, 3);
    const std::vector<float> g = Shard::Floats(gradient(), shard.gradient(), kCount);
    const std::vector<float> p(shard.master(), shard.master() + kCount);
    const std::vector<float> m(shard.m(), shard.m() + kCount);
    const std::vector<float> v(shard.v(), shard.v() + kCount);
    shard.Update(Kernel(level()), step);
    for (size_t i = 0; i < kCount; ++i) {
      const Element now = Oracle(step, g[i], {p[i], m[i], v[i]});
      ASSERT_NEAR(shard.m()[i], now.m, 1e-7) << t << " " << i;
      ASSERT_NEAR(shard.v()[i], now.v, 1e-6 * now.v) << t << " " << i;
      ASSERT_NEAR(shard.master()[i], now.p,
                  3e-7 * std::fabs(now.p) + 1e-6 * std::fabs(now.p - p[i]))
          << t << " " << i;
    }
  }
}

TEST_P(AdamWTest, WorkingWeightsAreTheRoundedMaster) {
  constexpr size_t kCount = 1001;
  Shard shard(gradient(), working(), kCount, 0, 4);
  shard.Update(Kernel(level()), StepNumber(1));
  std::vector<unsigned char> expected(kCount * SizeOf(working()));
  ConvertFromFloat(working(), expected.data(), shard.master(), kCount);
  EXPECT_EQ(std::memcmp(shard.working(), expected.data(), expected.size()), 0);
}

TEST_P(AdamWTest, SameBitsAsPortableAtAnyCountAndAlignment) {
  const AdamW portable = Kernel(SimdLevel::kPortable);
  const AdamW kernel = Kernel(level());
  for (size_t count = 0; count <= 130; ++count) {
    for (size_t offset : {0, 1, 4}) {
      Shard a(gradient(), working(), count, offset, count),
          b(gradient(), working(), count, offset, count);
      for (int t = 1; t <= 3; ++t) {
        a.Update(portable, StepNumber(t));
        b.Update(kernel, StepNumber(t));
      }
      ASSERT_EQ(a.Crc(), b.Crc()) << count << " at offset " << offset;
    }
  }
}

TEST_P(AdamWTest, SameBitsAsPortableForAnyBitPatterns) {
  constexpr size_t kCount = 50021;
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
    scramble(shard.m(), kCount * 4);
    scramble(shard.v(), kCount * 4);
    // NaN meeting NaN with another payload, in every pair of operands.
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t nan = 0x7f800001u + static_cast<uint32_t>(i);
      if (i & 1) shard.master()[i] = std::bit_cast<float>(nan);
      if (i & 2) shard.m()[i] = std::bit_cast<float>(nan + 100);
      if (i & 4) shard.v()[i] = std::bit_cast<float>(nan + 200);
      if (i & 8)
        std::memset(static_cast<char*>(shard.gradient()) + i * SizeOf(gradient()), 0xff,
                    SizeOf(gradient()));
    }
    shard.Update(Kernel(level), StepNumber(1));
    return shard.Crc();
  };
  EXPECT_EQ(run(level()), run(SimdLevel::kPortable));
}

TEST_P(AdamWTest, NanInOneInputIsCanonicalInEveryOutputThatDependsOnIt) {
  const float nan = std::bit_cast<float>(0xff812345u);  // signaling, negative, with a payload
  const auto canonical = [](float x) { return std::bit_cast<uint32_t>(x) == 0x7fc00000u; };
  constexpr size_t kCount = 37;
  for (size_t i = 0; i < kCount; ++i) {
    Shard by_gradient(gradient(), working(), kCount, 0, 6);
    ConvertFromFloat(gradient(),
                     static_cast<char*>(by_gradient.gradient()) + i * SizeOf(gradient()), &nan, 1);
    by_gradient.Update(Kernel(level()), StepNumber(1));
    EXPECT_TRUE(canonical(by_gradient.m()[i]));
    EXPECT_TRUE(canonical(by_gradient.v()[i]));
    EXPECT_TRUE(canonical(by_gradient.master()[i]));
    EXPECT_TRUE(std::isnan(Shard::Floats(working(), by_gradient.working(), kCount)[i]));

    Shard by_state(gradient(), working(), kCount, 0, 6);
    by_state.v()[i] = -1.0f;  // whose root the processor answers with a negative NaN
    by_state.master()[(i + 1) % kCount] = nan;
    by_state.Update(Kernel(level()), StepNumber(1));
    EXPECT_TRUE(canonical(by_state.master()[i]));
    EXPECT_TRUE(canonical(by_state.master()[(i + 1) % kCount]));
    EXPECT_TRUE(std::isfinite(by_state.m()[i]));
  }
}

TEST_P(AdamWTest, BitsOfAnElementDoNotDependOnItsPlace) {
  constexpr size_t kCount = 150;
  const AdamW kernel = Kernel(level());
  Shard whole(gradient(), working(), kCount, 0, 9), pieces(gradient(), working(), kCount, 0, 9);
  whole.Update(kernel, StepNumber(5));
  for (size_t begin = 0, length = 1; begin < kCount; begin += length, ++length) {
    const size_t count = std::min(length, kCount - begin);
    kernel.Update(StepNumber(5), static_cast<char*>(pieces.gradient()) + begin * SizeOf(gradient()),
                  pieces.master() + begin, pieces.m() + begin, pieces.v() + begin,
                  static_cast<char*>(pieces.working()) + begin * SizeOf(working()), count);
  }
  EXPECT_EQ(whole.Crc(), pieces.Crc());
}

std::vector<std::tuple<SimdLevel, DType, DType>> AllKernels() {
  std::vector<std::tuple<SimdLevel, DType, DType>> all;
  for (SimdLevel level : SupportedSimdLevels()) {
    for (DType gradient : kPairDTypes) {
      for (DType working : kPairDTypes) all.push_back({level, gradient, working});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, AdamWTest, ::testing::ValuesIn(AllKernels()), [](const auto& info) {
  return std::string(NameOf(std::get<0>(info.param))) + "_" +
         std::string(NameOf(std::get<1>(info.param))) + "_" +
         std::string(NameOf(std::get<2>(info.param)));
});

TEST(AdamWFormulaTest, FirstStepMovesByTheLearningRateAgainstTheSign) {
  ASSERT_OK_AND_ASSIGN(AdamW adamw, AdamW::Create(DType::kFloat32, DType::kFloat32));
  AdamWStep step = StepNumber(1);
  step.weight_decay = 0;
  const float gradient[] = {0.5f, -2.0f, 0.0f};
  float p[] = {1.0f, 1.0f, 1.0f}, m[3] = {}, v[3] = {}, working[3];
  adamw.Update(step, gradient, p, m, v, working, 3);
  EXPECT_NEAR(p[0], 1.0 - 1e-3, 1e-7);
  EXPECT_NEAR(p[1], 1.0 + 1e-3, 1e-7);
  EXPECT_EQ(p[2], 1.0f);
}

// Coupled L2 would let the gradient's scale divide the decay; decoupled decay is lr * wd * p
// always.
TEST(AdamWFormulaTest, DecayIsDecoupledFromTheGradient) {
  ASSERT_OK_AND_ASSIGN(AdamW adamw, AdamW::Create(DType::kFloat32, DType::kFloat32));
  AdamWStep step = StepNumber(1);
  step.lr = 0.1;
  step.weight_decay = 0.5;
  const float gradient = 0.0f;
  float p = 2.0f, m = 0, v = 0, working;
  adamw.Update(step, &gradient, &p, &m, &v, &working, 1);
  EXPECT_FLOAT_EQ(p, 2.0f * 0.95f);
  EXPECT_EQ(m, 0.0f);
}

TEST(AdamWFormulaTest, WorkingWeightsMayBeTheMaster) {
  ASSERT_OK_AND_ASSIGN(AdamW adamw, AdamW::Create(DType::kBFloat16, DType::kFloat32));
  Shard apart(DType::kBFloat16, DType::kFloat32, 77, 0, 2),
      same(DType::kBFloat16, DType::kFloat32, 77, 0, 2);
  apart.Update(adamw, StepNumber(1));
  adamw.Update(StepNumber(1), same.gradient(), same.master(), same.m(), same.v(), same.master(),
               77);
  EXPECT_EQ(std::memcmp(apart.master(), same.master(), 77 * 4), 0);
}

TEST(AdamWCreateTest, OtherDTypesAreRefusedNamingBoth) {
  EXPECT_THAT(AdamW::Create(DType::kFloat64, DType::kBFloat16),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("float64"), HasSubstr("bfloat16"))));
  EXPECT_THAT(AdamW::Create(DType::kFloat32, DType::kInt64),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("int64")));
}

}  // namespace
}  // namespace rz
