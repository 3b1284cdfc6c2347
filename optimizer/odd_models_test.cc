// Models that people reported trouble with: parameters of any size, buckets of any size, gradients
// that are missing on a rank, clipping where there is padding. Every stage gives one process's
// weights.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "optimizer/sim_ranks.h"
#include "optimizer/zero_optimizer.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::SimRanks;
using ::rz::testing::StatusIs;
using ::testing::HasSubstr;

constexpr ZeroStage kStages[] = {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne,
                                 ZeroStage::kTwo, ZeroStage::kThree};
constexpr int64_t kLargest = 7919;

std::vector<ParamSpec> Specs() {
  std::vector<ParamSpec> specs;
  for (const int64_t size :
       {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{4}, int64_t{5}, kLargest}) {
    specs.push_back({absl::StrCat("p", size), {size}, static_cast<int>(specs.size())});
  }
  return specs;
}

ZeroConfig Config(ZeroStage stage) {
  ZeroConfig config;
  config.stage = stage;
  config.dtype = DType::kFloat32;
  config.tile_chunk = 32;
  config.reduce_bucket_size = 512;
  config.announce_gradients = true;
  return config;
}

std::unique_ptr<SimRanks> MakeRanks(int world, const ZeroConfig& config) {
  auto ranks = SimRanks::Create(world, "", Specs(), config);
  EXPECT_OK(ranks.status());
  const auto initializer = [](size_t index, absl::Span<float> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.01f * static_cast<float>(i % 17) - 0.1f * static_cast<float>(index);
    }
  };
  for (const absl::Status& status : (*ranks)->Initialize(initializer)) EXPECT_OK(status);
  return *std::move(ranks);
}

// Multiples of 1/8 below 8, whose sums and means over 4 ranks are exact: the average over ranks is
// the same for any number of them.
float Gradient(int step, size_t index, size_t i) {
  return 0.125f * static_cast<float>((step * 7 + static_cast<int>(index * 5 + i * 3)) % 41 - 20);
}

// What each of `world` ranks brings, so that the mean is Gradient: rank 0 more, the last one less.
float Share(int step, size_t index, size_t i, int rank, int world) {
  const float more = world == 1 ? 0 : static_cast<float>(world - 1 - 2 * rank);
  return Gradient(step, index, i) + more;
}

void StepAll(SimRanks& ranks, int step) {
  const std::vector<ParamSpec> specs = Specs();
  for (int rank = 0; rank < ranks.world(); ++rank) {
    for (size_t p = 0; p < specs.size(); ++p) {
      for (size_t i = 0; i < static_cast<size_t>(specs[p].shape[0]); ++i) {
        ranks.SetGradient(rank, p, i, Share(step, p, i, rank, ranks.world()));
      }
    }
  }
  for (const auto& report : ranks.Step({0.01})) {
    ASSERT_OK(report.status());
    EXPECT_FALSE(report->skipped);
  }
}

// All working values; in stage 3 they are gathered first.
std::vector<float> Weights(SimRanks& ranks, int rank) {
  std::vector<float> weights;
  const std::vector<ParamSpec> specs = Specs();
  const bool gathers = ranks.optimizer(rank).config().stage == ZeroStage::kThree;
  for (size_t p = 0; p < specs.size(); ++p) {
    if (gathers) {
      for (const absl::Status& status : ranks.Gather(p, Pass::kForward)) EXPECT_OK(status);
    }
    for (size_t i = 0; i < static_cast<size_t>(specs[p].shape[0]); ++i) {
      weights.push_back(ranks.Parameter(rank, p, i));
    }
    if (gathers) {
      for (const absl::Status& status : ranks.Release(p, Pass::kForward)) EXPECT_OK(status);
    }
  }
  return weights;
}

std::vector<float> Train(int world, const ZeroConfig& config, int steps) {
  const auto ranks = MakeRanks(world, config);
  for (int step = 1; step <= steps; ++step) StepAll(*ranks, step);
  return Weights(*ranks, world - 1);
}

TEST(OddModelsTest, FourRanksOfAnyStageGiveOneProcesssWeights) {
  const std::vector<float> alone = Train(1, Config(ZeroStage::kDdp), 10);
  for (const ZeroStage stage : kStages) {
    EXPECT_TRUE(Train(4, Config(stage), 10) == alone) << "stage " << stage;
  }
}

TEST(OddModelsTest, BucketsOfAnySizeGiveTheSameAndNoneIsAnError) {
  const std::vector<float> alone = Train(1, Config(ZeroStage::kDdp), 2);
  for (const ZeroStage stage : kStages) {
    for (const int64_t bucket : {int64_t{1}, kLargest - 1, kLargest, int64_t{500'000'000}}) {
      ZeroConfig config = Config(stage);
      config.reduce_bucket_size = bucket;
      EXPECT_TRUE(Train(4, config, 2) == alone) << "stage " << stage << ", bucket " << bucket;
    }
    ZeroConfig config = Config(stage);
    config.reduce_bucket_size = 0;
    EXPECT_THAT(SimRanks::Create(4, "", Specs(), config).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("reduce_bucket_size is 0")));
  }
}

// As of a branch that no sample of the rank went through.
TEST(OddModelsTest, AGradientThatIsMissingOnARankCountsAsZerosAndIsToldOnce) {
  const std::vector<ParamSpec> specs = Specs();
  for (const ZeroStage stage : kStages) {
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    ZeroConfig config = Config(stage);
    config.optimizer = DefaultsOf(OptimizerKind::kSgd);
    const auto ranks = MakeRanks(4, config);
    const float before = Weights(*ranks, 0)[12];
    ::testing::internal::CaptureStderr();
    for (int step = 1; step <= 2; ++step) {
      for (int rank = 0; rank < 4; ++rank) {
        for (size_t p = 0; p < specs.size(); ++p) {
          if (rank == 1 && p == 4) continue;
          for (size_t i = 0; i < static_cast<size_t>(specs[p].shape[0]); ++i) {
            ranks->SetGradient(rank, p, i, p == 4 ? 1 : 0);
          }
        }
      }
      for (const auto& report : ranks->Step({0.5})) {
        ASSERT_OK(report.status());
        EXPECT_NEAR(report->norm, 0.75 * std::sqrt(5.0), 1e-6);
      }
    }
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_NEAR(Weights(*ranks, 1)[12], before - 0.75f, 1e-6);
    EXPECT_THAT(told, HasSubstr("rank 1: no gradient of 'p5' was announced"));
    EXPECT_EQ(told.find("no gradient"), told.rfind("no gradient")) << told;
  }
}

TEST(OddModelsTest, ClippingLeavesPaddingOutAndIsOneProcesss) {
  ZeroConfig config = Config(ZeroStage::kDdp);
  config.gradient_clipping = 1;
  const auto clipped = [&](int world, ZeroStage stage) {
    config.stage = stage;
    const auto ranks = MakeRanks(world, config);
    // Norm 3: 9 elements of 1.
    for (int rank = 0; rank < world; ++rank) {
      for (size_t p : {3, 4}) {
        for (size_t i = 0; i < p + 1; ++i) ranks->SetGradient(rank, p, i, 1);
      }
    }
    for (const auto& report : ranks->Step({0.01})) {
      EXPECT_OK(report.status());
      EXPECT_NEAR(report->norm, 3, 1e-6);
      EXPECT_NEAR(report->clipped_norm, 1, 1e-6);
    }
    return Weights(*ranks, 0);
  };
  const std::vector<float> alone = clipped(1, ZeroStage::kDdp);
  for (const ZeroStage stage : kStages) {
    const std::vector<float> weights = clipped(4, stage);
    ASSERT_EQ(weights.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(weights[i], alone[i], 1e-6);
  }
}

int64_t BucketBytes(const ZeroOptimizer& optimizer) {
  for (const OtherMemory& other : optimizer.Memory().other) {
    if (other.tag == MemoryTag::kBucket) return other.peak;
  }
  return 0;
}

// Units that are padded to whole buckets of nothing: these are reduced with the others of their
// unit, and hold up none. If they did, six units would need more buffers than two.
TEST(OddModelsTest, BucketsOfPaddingNeedNoMoreBuffers) {
  std::vector<ParamSpec> specs;
  for (int unit = 0; unit < 6; ++unit) specs.push_back({absl::StrCat("w", unit), {180}, unit});
  for (const int64_t group_size : {0, 1, 2}) {
    ZeroConfig config = Config(ZeroStage::kThree);
    config.reduce_bucket_size = 1;
    config.shard_group_size = group_size;
    ASSERT_OK_AND_ASSIGN(const auto ranks, SimRanks::Create(8, "", specs, config));
    for (const absl::Status& status : ranks->Initialize([](size_t, absl::Span<float>) {})) {
      ASSERT_OK(status);
    }
    const int64_t planned = BucketBytes(ranks->optimizer(0));
    for (int step = 0; step < 2; ++step) {
      for (int rank = 0; rank < 8; ++rank) {
        for (size_t p = 0; p < specs.size(); ++p) ranks->SetGradient(rank, p, 0, 1);
      }
      for (const auto& report : ranks->Step()) ASSERT_OK(report.status());
    }
    // They have no gradients: one buffer of zeros is for all of them.
    const auto zeros =
        static_cast<int64_t>(sizeof(float)) * ranks->optimizer(0).partition().largest_bucket();
    EXPECT_LE(BucketBytes(ranks->optimizer(0)), planned + zeros) << "groups of " << group_size;
  }
}

}  // namespace
}  // namespace rz
