// rz_train in real processes whose ranks shard the states in groups.
#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/integration/hand_started_ranks.h"
#include "tests/integration/subprocess.h"
#include "tests/integration/train_ranks.h"
#include "tools/launch/shared_memory_sweep.h"

namespace rz {
namespace {

using ::rz::testing::Arguments;
using ::rz::testing::Concat;
using ::rz::testing::Ending;
using ::rz::testing::EndOf;
using ::rz::testing::Subprocess;
using ::rz::testing::TrainRanks;
using ::rz::testing::WeightsOf;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// 989 parameters: a multiple of neither 2, 3 nor 4.
const Arguments kSmall = {"--dataset=synthetic", "--model=20-24-16-5", "--global-batch=50"};

Ending Train(int ranks, const Arguments& more) {
  return TrainRanks(ranks, Concat(Concat(kSmall, {"--steps=12"}), more));
}

class TrainShardGroupsTest : public ::testing::TestWithParam<const char*> {};

// The bytes on the wire and in memory are checked by rz_train, which fails where they differ.
TEST_P(TrainShardGroupsTest, GroupsOfTwo_GiveTheSameBitsInEveryStageAndOnEveryTransport) {
  const std::string dtype = absl::StrCat("--dtype=", GetParam());
  std::string expected;
  for (const char* stage : {"--stage=1", "--stage=2", "--stage=3"}) {
    for (const char* transport : {"--transport=tcp", "--transport=auto"}) {
      const Ending ending = Train(4, {dtype, stage, transport, "--shard-group=2", "--clip=1"});
      ASSERT_EQ(ending.exit_code, 0) << ending.out << ending.err;
      EXPECT_THAT(ending.out, AllOf(HasSubstr("4 ranks in groups of 2"), HasSubstr("difference 0"),
                                    HasSubstr("weights crc32c")));
      if (expected.empty()) expected = WeightsOf(ending);
      EXPECT_EQ(WeightsOf(ending), expected) << stage << " " << transport;
    }
  }
}

TEST_P(TrainShardGroupsTest, MicroStepsAndOverlap_EndInEveryStage) {
  for (const char* stage : {"--stage=1", "--stage=2", "--stage=3"}) {
    const Ending ending =
        Train(6, {absl::StrCat("--dtype=", GetParam()), stage, "--transport=tcp", "--shard-group=3",
                  "--accumulate=2", "--accumulation=shard", "--overlap"});
    EXPECT_EQ(ending.exit_code, 0) << ending.out << ending.err;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, TrainShardGroupsTest, ::testing::Values("bf16", "fp32"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TrainShardGroupsOutputTest, Compare_EndsWellThoughGroupsRoundOtherwise) {
  const Ending ending = Train(4, {"--compare", "--shard-group=2"});
  EXPECT_EQ(ending.exit_code, 0) << ending.out << ending.err;
  EXPECT_THAT(ending.out, HasSubstr("zero-3"));
}

TEST(TrainShardGroupsOutputTest, OneHostsRanks_AreAllOfThem) {
  const Ending plain = Train(2, {"--stage=3"});
  const Ending host = Train(2, {"--stage=3", "--shard-group=host"});
  ASSERT_EQ(host.exit_code, 0) << host.out << host.err;
  EXPECT_EQ(WeightsOf(plain), WeightsOf(host));
}

TEST(TrainShardGroupsOutputTest, ASizeThatDoesNotDivide_IsAnErrorWithBothNumbers) {
  const Ending ending = Train(3, {"--stage=2", "--shard-group=2"});
  EXPECT_NE(ending.exit_code, 0);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("shard_group_size is 2"), HasSubstr("3 ranks")));
}

TEST(TrainShardGroupsOutputTest, AProgressThreadBesideGroups_IsAnErrorThatNamesBoth) {
  const Ending ending =
      Train(4, {"--stage=2", "--shard-group=2", "--transport=tcp", "--progress-thread=on"});
  EXPECT_NE(ending.exit_code, 0);
  EXPECT_THAT(ending.err, AllOf(HasSubstr("progress thread"), HasSubstr("shard_group_size"),
                                HasSubstr("leave one of them out")));
}

using TrainShardGroupsEndTest = ::rz::testing::HandStartedRanks;

// Of groups {0 1} and {2 3}, rank 2 works with 3 on the states and with 0 on the same shard; all
// ranks vote with it.
TEST_F(TrainShardGroupsEndTest, ARankKilledInMidTraining_EndsBothGroupsWhichNameIt) {
  constexpr int kWorld = 4;
  constexpr int kVictim = 2;
  const std::time_t began = std::time(nullptr);
  for (const Arguments& way :
       {Arguments{"--stage=1", "--transport=auto"}, Arguments{"--stage=2", "--transport=tcp"},
        Arguments{"--stage=3", "--transport=auto"}}) {
    SCOPED_TRACE(way[0] + " " + way[1]);
    std::vector<std::unique_ptr<Subprocess>> ranks;
    ranks.reserve(kWorld);
    for (int rank = 0; rank < kWorld; ++rank) {
      ranks.push_back(StartRank(
          rank, kWorld, Concat(Concat(kSmall, {"--steps=1000000000", "--shard-group=2"}), way)));
    }
    ASSERT_TRUE(ranks[0]->WaitForOutput("step 20 "));
    ranks[kVictim]->Signal(SIGKILL);
    for (int rank = 0; rank < kWorld; ++rank) {
      const Ending ending = EndOf(*ranks[static_cast<size_t>(rank)]);
      if (rank == kVictim) {
        EXPECT_EQ(ending.exit_code, 128 + SIGKILL);
        continue;
      }
      EXPECT_EQ(ending.exit_code, 1) << rank;
      EXPECT_THAT(ending.err,
                  AllOf(ContainsRegex(absl::StrCat("rz_train: rank ", rank, ": step [0-9]+: ")),
                        HasSubstr("rank 2")));
    }
  }
  EXPECT_EQ(SweepSharedMemory("/dev/shm", began), 0);
}

}  // namespace
}  // namespace rz
