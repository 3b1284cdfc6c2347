#include "optimizer/zero_config.h"

#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(ZeroStageTest, NamesParseBack) {
  for (const ZeroStage stage :
       {ZeroStage::kDdp, ZeroStage::kNaive, ZeroStage::kOne, ZeroStage::kTwo, ZeroStage::kThree}) {
    EXPECT_THAT(ParseZeroStage(NameOf(stage)), Optional(stage));
  }
  EXPECT_THAT(ParseZeroStage("0"), Optional(ZeroStage::kDdp));
  EXPECT_THAT(ParseZeroStage("4"), Eq(std::nullopt));
}

TEST(ValidateConfigTest, DefaultsAreValid) { EXPECT_OK(ValidateConfig(ZeroConfig())); }

TEST(ValidateConfigTest, NamesTheFieldThatCannotBe) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    std::string field;
    std::function<void(ZeroConfig*)> spoil;
  };
  const std::vector<Case> cases = {
      {"beta1", [](ZeroConfig* c) { c->optimizer.beta1 = 1; }},
      {"warmup_steps",
       [](ZeroConfig* c) {
         c->schedule.kind = ScheduleKind::kWarmup;
         c->schedule.warmup_steps = 0;
       }},
      {"loss scale", [](ZeroConfig* c) { c->loss_scale.scale = kNan; }},
      {"gradient_clipping", [](ZeroConfig* c) { c->gradient_clipping = -1; }},
      {"max_skipped_steps", [](ZeroConfig* c) { c->max_skipped_steps = -1; }},
      {"reduce_bucket_size", [](ZeroConfig* c) { c->reduce_bucket_size = 0; }},
      {"max_live_parameters", [](ZeroConfig* c) { c->max_live_parameters = 0; }},
      {"max_reuse_distance", [](ZeroConfig* c) { c->max_reuse_distance = -1; }},
      {"param_persistence_threshold", [](ZeroConfig* c) { c->param_persistence_threshold = -1; }},
      {"buckets_in_flight", [](ZeroConfig* c) { c->buckets_in_flight = 0; }},
      {"ledger", [](ZeroConfig* c) { c->ledger = nullptr; }},
      {"gradient_clipping, which is 1, needs gradients inspected; set it to 0",
       [](ZeroConfig* c) {
         c->inspect_gradients = false;
         c->gradient_clipping = 1;
       }},
      {"a dynamic loss scale needs gradients inspected",
       [](ZeroConfig* c) {
         c->inspect_gradients = false;
         c->loss_scale.dynamic = true;
       }},
      {"shard_group_size is the ranks of a host, but stage naive knows no groups",
       [](ZeroConfig* c) {
         c->stage = ZeroStage::kNaive;
         c->shard_group_size = kRanksOfHost;
       }},
  };
  for (const Case& bad : cases) {
    ZeroConfig config;
    bad.spoil(&config);
    EXPECT_THAT(ValidateConfig(config),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.field)));
  }
}

TEST(ValidateConfigTest, WhatIsKnownButNotRunIsNamed) {
  struct Case {
    std::string what;
    std::function<void(ZeroConfig*)> ask;
  };
  const std::vector<Case> cases = {
      {"int32", [](ZeroConfig* c) { c->dtype = DType::kInt32; }},
      {"allgather_bucket_size", [](ZeroConfig* c) { c->allgather_bucket_size = 7; }},
  };
  for (const Case& asked : cases) {
    ZeroConfig config;
    asked.ask(&config);
    EXPECT_THAT(ValidateConfig(config),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(asked.what)));
  }
}

// Which gradient dtypes go together, and what an error says of those that do not.
TEST(ValidateConfigTest, GradientDTypes) {
  struct Case {
    DType working;
    std::optional<DType> communication, accumulation;
    int64_t micro_steps;
    std::string error;
  };
  constexpr DType k32 = DType::kFloat32, kB = DType::kBFloat16, kH = DType::kFloat16;
  const std::vector<Case> cases = {
      {kB, kB, kB, 1, ""},
      {kB, k32, std::nullopt, 1, ""},
      {kB, k32, k32, 4, ""},
      {kB, std::nullopt, k32, 1, ""},
      {k32, kB, k32, 1, ""},
      {k32, kH, std::nullopt, 4, ""},
      {kB, kH, std::nullopt, 1,
       "communication_dtype is float16 with parameters of bfloat16; it must be bfloat16 or "
       "float32"},
      {k32, DType::kInt32, std::nullopt, 1, "it must be float32, bfloat16 or float16"},
      {kB, k32, kB, 1, "accumulation_dtype is bfloat16 with gradients reduced in float32"},
      {kB, kB, kH, 1, "it must be float32 or bfloat16"},
      {kB, kB, kB, 4, "and 4 micro-steps; it must be float32"},
  };
  for (const Case& c : cases) {
    ZeroConfig config;
    config.dtype = c.working;
    config.communication_dtype = c.communication;
    config.accumulation_dtype = c.accumulation;
    config.gradient_accumulation_steps = c.micro_steps;
    if (c.error.empty()) {
      EXPECT_OK(ValidateConfig(config));
    } else {
      EXPECT_THAT(ValidateConfig(config),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
    }
  }
}

TEST(FingerprintTest, CoversWhatRanksMustShare) {
  const std::vector<std::function<void(ZeroConfig*)>> changes = {
      [](ZeroConfig*) {},
      [](ZeroConfig* c) { c->stage = ZeroStage::kDdp; },
      [](ZeroConfig* c) { c->dtype = DType::kFloat32; },
      [](ZeroConfig* c) { c->optimizer.beta1 = 0.5; },
      [](ZeroConfig* c) { c->schedule.kind = ScheduleKind::kWarmup; },
      [](ZeroConfig* c) { c->schedule.warmup_steps = 5; },
      [](ZeroConfig* c) { c->schedule.max_rate = 0.0; },
      [](ZeroConfig* c) { c->loss_scale.dynamic = true; },
      [](ZeroConfig* c) { c->loss_scale.minimum = 0.5; },
      [](ZeroConfig* c) { c->max_skipped_steps = 3; },
      [](ZeroConfig* c) { c->gradient_clipping = 1; },
      [](ZeroConfig* c) { c->gradient_accumulation_steps = 2; },
      [](ZeroConfig* c) { c->accumulation = AccumulationPolicy::kShard; },
      [](ZeroConfig* c) { c->accumulation_dtype = DType::kFloat32; },
      [](ZeroConfig* c) { c->communication_dtype = DType::kFloat32; },
      [](ZeroConfig* c) { c->reduction = GradientReduction::kSum; },
      [](ZeroConfig* c) { c->reduce_bucket_size = 7; },
      [](ZeroConfig* c) { c->allgather_bucket_size = 7; },
      [](ZeroConfig* c) { c->overlap_communication = true; },
      [](ZeroConfig* c) { c->announce_gradients = true; },
      [](ZeroConfig* c) { c->max_reuse_distance = 7; },
      [](ZeroConfig* c) { c->prefetch_bucket_size = 7; },
      [](ZeroConfig* c) { c->max_live_parameters = 7; },
      [](ZeroConfig* c) { c->param_persistence_threshold = 7; },
  };
  std::set<std::string> fingerprints;
  for (const auto& change : changes) {
    ZeroConfig config;
    change(&config);
    fingerprints.insert(Fingerprint(config));
  }
  EXPECT_EQ(fingerprints.size(), changes.size());
}

}  // namespace
}  // namespace rz
