// Going on after states have been loaded from outside: every stage has what was loaded and nothing
// of what was there before.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::IsOk;
using ::rz::testing::SimRanks;
using ::rz::testing::StatusIs;
using ::testing::Each;

constexpr int kWorld = 3;

ZeroConfig Config(ZeroStage stage, DType dtype = DType::kFloat32) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = dtype;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 1;
  config.announce_gradients = true;
  return config;
}

// The last unit has a frozen parameter beside its own.
std::unique_ptr<SimRanks> MakeRanks(const ZeroConfig& config) {
  ParamSpec frozen = {"frozen", {7}, 1};
  frozen.frozen = true;
  auto ranks = SimRanks::Create(kWorld, "", {{"w", {500}, 0}, {"b", {100}, 1}, frozen}, config);
  EXPECT_OK(ranks.status());
  EXPECT_THAT((*ranks)->Initialize([](size_t index, absl::Span<float> values) {
    std::ranges::fill(values, static_cast<float>(index + 1));
  }),
              Each(IsOk()));
  return *std::move(ranks);
}

void Step(SimRanks& ranks, float gradient) {
  for (int rank = 0; rank < kWorld; ++rank) {
    for (const size_t p : {0, 1}) {
      ranks.SetGradient(rank, p, 0, gradient * static_cast<float>(rank + 1));
    }
  }
  for (const auto& report : ranks.Step()) ASSERT_OK(report.status());
}

// All that a rank has, as a checkpoint would keep it.
std::string Saved(ZeroOptimizer& optimizer) {
  std::string saved;
  const auto append = [&saved](const void* from, size_t bytes) {
    saved.append(static_cast<const char*>(from), bytes);
  };
  for (size_t i = 0; i < StateCount(optimizer.config().optimizer); ++i) {
    append(optimizer.optimizer_state(i).data(),
           optimizer.optimizer_state(i).size() * sizeof(float));
  }
  append(optimizer.master().data(), optimizer.master().size() * sizeof(float));
  append(optimizer.parameter_shard().data(), optimizer.parameter_shard().size());
  for (size_t p = 0; p < 3 && optimizer.config().stage != ZeroStage::kThree; ++p) {
    append(optimizer.Params<std::byte>(p).data(),
           optimizer.Params<std::byte>(p).size() * SizeOf(optimizer.config().dtype));
  }
  return saved;
}

void Load(const std::string& saved, ZeroOptimizer& optimizer) {
  const char* from = saved.data();
  const auto take = [&from](void* to, size_t bytes) {
    std::memcpy(to, from, bytes);
    from += bytes;
  };
  for (size_t i = 0; i < StateCount(optimizer.config().optimizer); ++i) {
    const absl::Span<float> state = optimizer.mutable_optimizer_state(i);
    take(state.data(), state.size() * sizeof(float));
  }
  take(optimizer.mutable_master().data(), optimizer.mutable_master().size() * sizeof(float));
  take(optimizer.mutable_parameter_shard().data(), optimizer.mutable_parameter_shard().size());
  for (size_t p = 0; p < 3 && optimizer.config().stage != ZeroStage::kThree; ++p) {
    const absl::Span<std::byte> parameter = optimizer.Params<std::byte>(p);
    take(parameter.data(), parameter.size() * SizeOf(optimizer.config().dtype));
  }
  ASSERT_EQ(from, saved.data() + saved.size());
}

TEST(ResumeTest, AnotherOptimizerGoesOnWithTheSameBits) {
  for (const ZeroStage stage :
       {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(::testing::Message() << stage << " " << dtype);
      const auto first = MakeRanks(Config(stage, dtype));
      Step(*first, 1);
      Step(*first, -2);
      const auto second = MakeRanks(Config(stage, dtype));
      for (int rank = 0; rank < kWorld; ++rank) {
        Load(Saved(first->optimizer(rank)), second->optimizer(rank));
        ASSERT_OK(second->optimizer(rank).Resume(2));
        EXPECT_EQ(second->optimizer(rank).steps_taken(), 2);
      }
      Step(*first, 3);
      Step(*second, 3);
      for (int rank = 0; rank < kWorld; ++rank) {
        EXPECT_TRUE(second->StateBits(rank) == first->StateBits(rank)) << rank;
      }
    }
  }
}

TEST(ResumeTest, UnitsThatAreAlwaysWholeHaveWhatWasLoaded) {
  ZeroConfig config = Config(ZeroStage::kThree);
  config.param_persistence_threshold = 1000;
  const auto ranks = MakeRanks(config);
  const int64_t usual = ranks->optimizer(0).ExpectedWire()->payload_bytes();
  for (int rank = 0; rank < kWorld; ++rank) {
    const absl::Span<std::byte> shard = ranks->optimizer(rank).mutable_parameter_shard();
    std::fill_n(reinterpret_cast<float*>(shard.data()), shard.size() / sizeof(float), 40.0f);
    ASSERT_OK(ranks->optimizer(rank).Resume(7));
    EXPECT_TRUE(ranks->optimizer(rank).Params<float>(2).empty());
  }
  const int64_t once = ranks->optimizer(0).ExpectedWire()->payload_bytes();
  EXPECT_GT(once, usual);
  for (const bool first : {true, false}) {
    for (size_t unit = 0; unit < 2; ++unit) {
      EXPECT_THAT(ranks->Gather(unit, Pass::kForward), Each(IsOk()));
    }
    for (int rank = 0; rank < kWorld; ++rank) {
      EXPECT_THAT(ranks->optimizer(rank).Params<float>(2), Each(40));
      if (!first) continue;
      EXPECT_THAT(ranks->optimizer(rank).Params<float>(0), Each(40));
    }
    Step(*ranks, 1);
    const absl::StatusOr<StepReport> report = ranks->optimizer(0).StepResult();
    ASSERT_OK(report.status());
    EXPECT_EQ(report->step, first ? 8 : 9);
    EXPECT_EQ(report->payload_bytes, first ? once : usual);
    EXPECT_EQ(ranks->optimizer(0).ExpectedWire()->payload_bytes(), usual);
  }
}

TEST(ResumeTest, ParametersThatAreInitializedAgainNeedNoGather) {
  ZeroConfig config = Config(ZeroStage::kThree);
  config.param_persistence_threshold = 1000;
  const auto ranks = MakeRanks(config);
  for (int rank = 0; rank < kWorld; ++rank) ASSERT_OK(ranks->optimizer(rank).Resume(7));
  EXPECT_THAT(
      ranks->Initialize([](size_t, absl::Span<float> values) { std::ranges::fill(values, 9.0f); }),
      Each(IsOk()));
  EXPECT_THAT(ranks->optimizer(1).Params<float>(2), Each(9));
}

TEST(ResumeTest, SkippedStepsAreCountedAnew) {
  ZeroConfig config = Config(ZeroStage::kOne);
  config.max_skipped_steps = 2;
  const auto ranks = MakeRanks(config);
  for (int time = 0; time < 3; ++time) {
    Step(*ranks, std::numeric_limits<float>::infinity());
    for (int rank = 0; rank < kWorld; ++rank) ASSERT_OK(ranks->optimizer(rank).Resume(0));
  }
}

TEST(ResumeTest, WhatCannotBeIsRefused) {
  auto ranks = SimRanks::Create(1, "", {{"w", {3}}}, Config(ZeroStage::kOne));
  ASSERT_OK(ranks.status());
  ZeroOptimizer& optimizer = (*ranks)->optimizer(0);
  EXPECT_THAT(optimizer.Resume(1), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT((*ranks)->Initialize([](size_t, absl::Span<float>) {}), Each(IsOk()));
  EXPECT_THAT(optimizer.Resume(-1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(optimizer.AddGradient(0, std::vector<float>(3)));
  EXPECT_THAT(optimizer.Resume(1), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(optimizer.Step({}).status());
  EXPECT_OK(optimizer.Resume(1));
}

}  // namespace
}  // namespace rz
