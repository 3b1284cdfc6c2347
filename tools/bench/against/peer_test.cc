#include "tools/bench/against/peer.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Command(const PeerSetting& setting, const PeerPlace& place, bool fresh = false) {
  return absl::StrJoin(CommandOf(setting, BenchOperation::kAllReduce, place, {8, 1 << 20},
                                 absl::Milliseconds(3), fresh),
                       " ");
}

TEST(PeerTest, NamesParse) {
  EXPECT_THAT(*ParsePeers("gloo,openmpi"), ElementsAre(PeerLibrary::kGloo, PeerLibrary::kOpenMpi));
  EXPECT_THAT(ParsePeers("openmip"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did you mean openmpi?")));
  EXPECT_THAT(ParsePeers(""), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PeerTest, BestSettingsKeepMemoryAndBind) {
  const PeerPlace place = {.folder = "/p", .ranks = 2, .processors = 2, .root_user = true};
  for (PeerLibrary peer : {PeerLibrary::kOpenMpi, PeerLibrary::kMpich}) {
    const auto settings = SettingsOf(peer, BenchOperation::kAllReduce, place, false);
    EXPECT_THAT(Command(settings[0], place),
                AllOf(HasSubstr("glibc.malloc.hugetlb=1"), HasSubstr("core"), HasSubstr("--huge"),
                      HasSubstr("/p/coll_"), HasSubstr("all_reduce --sizes 8,1048576"),
                      HasSubstr("--budget 3000")));
    EXPECT_THAT(settings[0].description, HasSubstr("bound"));
  }
  EXPECT_THAT(
      Command(SettingsOf(PeerLibrary::kOpenMpi, BenchOperation::kAllReduce, place, false)[0],
              place),
      HasSubstr("--allow-run-as-root"));
  const auto gloo = SettingsOf(PeerLibrary::kGloo, BenchOperation::kAllReduce, place, false);
  EXPECT_THAT(Command(gloo[0], place), HasSubstr("--ranks 2 --huge"));
  EXPECT_EQ(gloo[0].environment.size(), 1);
}

TEST(PeerTest, MoreRanksThanProcessorsAreNotBound) {
  const PeerPlace place = {.folder = "/p", .ranks = 4, .processors = 2};
  const auto openmpi = SettingsOf(PeerLibrary::kOpenMpi, BenchOperation::kAllReduce, place, false);
  EXPECT_THAT(Command(openmpi[0], place),
              AllOf(HasSubstr("--oversubscribe --bind-to none"), Not(HasSubstr("as-root"))));
  EXPECT_THAT(openmpi[0].description, Not(HasSubstr("bound")));
  const auto mpich = SettingsOf(PeerLibrary::kMpich, BenchOperation::kAllReduce, place, false);
  EXPECT_THAT(Command(mpich[0], place), Not(HasSubstr("-bind-to")));
}

TEST(PeerTest, OutOfTheBoxNothingIsSet) {
  const PeerPlace place = {.folder = "/p", .ranks = 2, .processors = 2};
  for (PeerLibrary peer : kAllPeers) {
    const auto settings = SettingsOf(peer, BenchOperation::kAllReduce, place, true);
    EXPECT_TRUE(settings.back().out_of_the_box);
    EXPECT_THAT(Command(settings.back(), place),
                AllOf(Not(HasSubstr("glibc")), Not(HasSubstr("--huge")), Not(HasSubstr("core"))));
    EXPECT_THAT(settings.back().environment, IsEmpty());
  }
}

TEST(PeerTest, ForcedAlgorithmsAreTriedWithLargeMessagesOnly) {
  const PeerPlace place = {.folder = "/p", .ranks = 2, .processors = 2};
  const auto settings =
      SettingsOf(PeerLibrary::kOpenMpi, BenchOperation::kReduceScatter, place, false);
  ASSERT_EQ(settings.size(), 4);
  EXPECT_THAT(Command(settings[3], place),
              AllOf(HasSubstr("coll_tuned_reduce_scatter_block_algorithm 4"),
                    HasSubstr("--sizes 1048576 ")));
  EXPECT_THAT(CommandOf(settings[3], BenchOperation::kReduceScatter, place, {8, 64},
                        absl::Seconds(1), false),
              IsEmpty());
  EXPECT_THAT(Command(settings[3], place, true), HasSubstr("--fresh"));
}

TEST(PeerTest, GlooHasFourOperationsAndNobodyVariants) {
  EXPECT_TRUE(HasOperation(PeerLibrary::kGloo, BenchOperation::kReduceScatter));
  EXPECT_FALSE(HasOperation(PeerLibrary::kGloo, BenchOperation::kAllToAll));
  EXPECT_TRUE(HasOperation(PeerLibrary::kMpich, BenchOperation::kAllToAll));
  EXPECT_FALSE(HasOperation(PeerLibrary::kMpich, BenchOperation::kAllToAllV));
}

TEST(PeerTest, WhatAProgramPrintsIsRead) {
  const auto times = ParsePeerTimes("all_reduce 8 out_of_place 0.5\nall_reduce 8 in_place 1e3\n\n");
  ASSERT_OK(times.status());
  ASSERT_EQ(times->size(), 2);
  EXPECT_FALSE((*times)[0].in_place);
  EXPECT_EQ((*times)[0].time_us, 0.5);
  EXPECT_TRUE((*times)[1].in_place);
  for (const char* wrong : {"hello", "a 8 out 1", "a x in_place 1", "a 8 in_place 0",
                            "a 8 in_place nan", "a 8 in_place 1 2"}) {
    EXPECT_THAT(ParsePeerTimes(wrong), StatusIs(absl::StatusCode::kInvalidArgument)) << wrong;
  }
}

}  // namespace
}  // namespace rz
