#include "tools/scale/scale_config.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tools/flag_set.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ScaleConfig> Read(const std::vector<std::string>& arguments) {
  FlagSet flags("rz_scale", "");
  ScaleFlags scale_flags;
  scale_flags.Declare(&flags);
  const absl::Status parsed = flags.Parse(arguments);
  if (!parsed.ok()) return parsed;
  return scale_flags.Read(flags);
}

TEST(ScaleConfigTest, DefaultsAreTheTableOfTheDocuments) {
  ASSERT_OK_AND_ASSIGN(const ScaleConfig config, Read({}));
  EXPECT_THAT(config.collectives, ElementsAre(Collective::kReduceScatter, Collective::kAllGather,
                                              Collective::kAllReduce));
  EXPECT_THAT(config.ranks, ElementsAre(64, 512, 4096));
  EXPECT_THAT(config.sizes, ElementsAre(64 << 10, 16 << 20, 1 << 30));
  EXPECT_EQ(config.links.latency, absl::Microseconds(5));
  EXPECT_EQ(config.links.rank_bandwidth, 25e9);
  EXPECT_EQ(config.links.host_bandwidth, 0);
  EXPECT_FALSE(config.links.local_latency.has_value());
}

TEST(ScaleConfigTest, LinksAreRead) {
  ASSERT_OK_AND_ASSIGN(const ScaleConfig config, Read({"allreduce",
                                                       "--ranks",
                                                       "8,1K",
                                                       "--alpha",
                                                       "2us",
                                                       "--bandwidth",
                                                       "10G",
                                                       "--ranks-per-host",
                                                       "8",
                                                       "--host-bandwidth",
                                                       "50G",
                                                       "--local-alpha",
                                                       "300ns",
                                                       "--local-bandwidth",
                                                       "0",
                                                       "--hosts-per-rack",
                                                       "4",
                                                       "--rack-bandwidth=100G",
                                                       "--reduce-bandwidth",
                                                       "20G",
                                                       "--lanes",
                                                       "2",
                                                       "--slice",
                                                       "64K",
                                                       "-d",
                                                       "bfloat16",
                                                       "--numeric",
                                                       "deterministic"}));
  EXPECT_THAT(config.collectives, ElementsAre(Collective::kAllReduce));
  EXPECT_THAT(config.ranks, ElementsAre(8, 1024));
  EXPECT_EQ(config.links.latency, absl::Microseconds(2));
  EXPECT_EQ(config.links.rank_bandwidth, 10e9);
  EXPECT_EQ(config.links.ranks_per_host, 8);
  EXPECT_EQ(config.links.host_bandwidth, 50e9);
  EXPECT_EQ(config.links.local_latency, absl::Nanoseconds(300));
  EXPECT_EQ(config.links.local_bandwidth, 0);
  EXPECT_EQ(config.links.hosts_per_rack, 4);
  EXPECT_EQ(config.links.rack_bandwidth, 100e9);
  EXPECT_EQ(config.reduce_bandwidth, 20e9);
  EXPECT_EQ(config.lanes_in_flight, 2);
  EXPECT_EQ(config.slice_bytes, 64 << 10);
  EXPECT_EQ(config.dtype, DType::kBFloat16);
  EXPECT_EQ(config.mode, NumericMode::kDeterministic);
}

TEST(ScaleConfigTest, EachCollectiveTakesTheAlgorithmsItHas) {
  ASSERT_OK_AND_ASSIGN(ScaleConfig config, Read({"--algorithm", "ring,pairwise,halving,bruck"}));
  EXPECT_THAT(config.AlgorithmsOf(Collective::kReduceScatter),
              ElementsAre(Algorithm::kRing, Algorithm::kPairwise, Algorithm::kHalving));
  EXPECT_THAT(config.AlgorithmsOf(Collective::kAllGather),
              ElementsAre(Algorithm::kRing, Algorithm::kBruck));
  ASSERT_OK_AND_ASSIGN(config, Read({"all", "--algorithm", "all"}));
  EXPECT_EQ(config.collectives.size(), 9u);
  EXPECT_EQ(config.AlgorithmsOf(Collective::kBroadcast).size(), 3u);
}

TEST(ScaleConfigTest, WhatCannotBeIsNamed) {
  const auto refused = [](const std::vector<std::string>& arguments, const char* what) {
    EXPECT_THAT(Read(arguments).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  refused({"--rank-per-host", "8"}, "--ranks-per-host");
  refused({"reduce_scater"}, "reduce_scatter");
  refused({"all_gather_v"}, "'all_gather_v' is not simulated");
  refused({"--algorithm", "rign"}, "did you mean ring?");
  refused({"--ranks", "0"},
          "--ranks takes numbers from 1 to 65536 such as 64 or 4K, between commas, not '0'");
  refused({"--ranks", "8,x"}, "not 'x'");
  refused({"--ranks", ""}, "not ''");
  refused({"--ranks", "64,65537"}, "not '65537'");
  refused({"--sizes", "x"}, "x");
  refused({"--sizes", "1P"}, "1P");
  refused({"-d", "float31"}, "not 'float31'");
  refused({"--rack-bandwidth", "1G"}, "needs --hosts-per-rack");
  refused({"--slice", "63"}, "at least 64, not 63");
  refused({"--alpha", "-1us"}, "--alpha");
}

}  // namespace
}  // namespace rz
