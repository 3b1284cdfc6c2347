// rz_comm_rebuild among real processes: what is left of a job goes on, whatever ended it.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/integration/subprocess.h"

namespace rz::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

std::vector<std::string> Words(const std::string& text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// rebuild_ranks under rz_run.
Ending RunRanks(const std::string& launcher_arguments, const std::string& arguments) {
  std::vector<std::string> command = {ProgramPath("tools/rz_run")};
  for (const std::string& word : Words(launcher_arguments)) command.push_back(word);
  command.push_back("--");
  command.push_back(ProgramPath("tests/library/rebuild_ranks"));
  for (const std::string& word : Words(arguments)) command.push_back(word);
  Subprocess run(command);
  return EndOf(run);
}

// "[2] process 2 is rank 1 of 3", for processes 0, 2, 3.
std::vector<std::string> Survivors(const std::vector<int>& processes) {
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    lines.push_back(absl::StrCat("[", processes[rank], "] process ", processes[rank], " is rank ",
                                 rank, " of ", processes.size()));
  }
  return lines;
}

TEST(RebuildTest, RanksThatAllLiveGoOnAfterAnAbortAndACallThatDiffered) {
  for (const char* events : {"abort:0:2", "abort:1:1 abort:2:5", "differ:2:3"}) {
    SCOPED_TRACE(events);
    const Ending ending = RunRanks("-n 3", absl::StrCat("any 3 ", events));
    EXPECT_EQ(ending.exit_code, 0) << ending.err;
    EXPECT_THAT(Lines(ending.out), UnorderedElementsAreArray(Survivors({0, 1, 2})));
  }
}

TEST(RebuildTest, TheOthersGoOnWhereOneDies) {
  for (const char* transport : {"any", "tcp"}) {
    for (int dead : {0, 1, 3}) {
      const std::string arguments = absl::StrCat(transport, " 2 die:", dead, ":3");
      SCOPED_TRACE(arguments);
      const Ending ending = RunRanks("-n 4 --min-ranks 2", arguments);
      EXPECT_EQ(ending.exit_code, 0) << ending.err;
      std::vector<int> living;
      for (int process = 0; process < 4; ++process) {
        if (process != dead) living.push_back(process);
      }
      EXPECT_THAT(Lines(ending.out), UnorderedElementsAreArray(Survivors(living)));
      EXPECT_THAT(ending.err,
                  AllOf(HasSubstr(absl::StrCat("rank ", dead, " ended: killed by signal 9")),
                        HasSubstr("3 of 4 go on")));
    }
  }
}

TEST(RebuildTest, SeveralDieAtOnceWhileTheOthersRebuildAndAgainLater) {
  struct {
    const char* events;
    std::vector<int> living;
  } const kCases[] = {{"die:0:2 die:3:2", {1, 2}},
                      {"die:1:2 drop:2:0", {0, 3}},
                      {"die:3:1 die:0:4", {1, 2}},
                      {"die:0:1 abort:1:2 die:2:4", {1, 3}},
                      {"die:0:1 drop:1:0 drop:2:0", {3}}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.events);
    const Ending ending = RunRanks("-n 4 --min-ranks 1", absl::StrCat("any 1 ", c.events));
    EXPECT_EQ(ending.exit_code, 0) << ending.err;
    EXPECT_THAT(Lines(ending.out), UnorderedElementsAreArray(Survivors(c.living)));
  }
}

TEST(RebuildTest, TooFewRanksAreAnErrorThatSaysWhoIsGone) {
  const Ending ending = RunRanks("-n 3 --min-ranks 1", "any 3 die:1:2");
  EXPECT_EQ(ending.exit_code, 3);
  EXPECT_THAT(ending.out, IsEmpty());
  EXPECT_THAT(ending.err, AllOf(HasSubstr("2 of 3 ranks are left of epoch 1, fewer than the 3"),
                                HasSubstr("gone: rank 1")));
}

TEST(RebuildTest, ALauncherThatWantsMoreRanksThanAreLeftEndsThem) {
  const Ending ending = RunRanks("-n 3 --min-ranks 3 --grace 0.1", "any 1 die:1:2");
  EXPECT_EQ(ending.exit_code, 128 + 9);
}

// No launcher: the rendezvous sees the connection break.
TEST(RebuildTest, RanksStartedByHandGoOnWhereOneDies) {
  Subprocess server({ProgramPath("tools/rz_rendezvous"), "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(server.WaitForOutput("\n"));
  const std::string output = server.Output();
  const size_t at = output.find("127.0.0.1:");
  ASSERT_NE(at, std::string::npos) << output;
  const std::string address = output.substr(at, output.find_first_of(" \n", at) - at);
  std::vector<std::unique_ptr<Subprocess>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    const Subprocess::Environment environment = {
        {"RZ_RENDEZVOUS", address}, {"RZ_WORLD_SIZE", "3"}, {"RZ_RANK", absl::StrCat(rank)}};
    ranks.push_back(std::make_unique<Subprocess>(
        std::vector<std::string>{ProgramPath("tests/library/rebuild_ranks"), "any", "2", "die:1:2"},
        "", environment));
  }
  EXPECT_EQ(ranks[1]->Wait(), 128 + 9);
  const Ending first = EndOf(*ranks[0]);
  const Ending last = EndOf(*ranks[2]);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(first.out, "process 0 is rank 0 of 2\n");
  EXPECT_EQ(last.out, "process 2 is rank 1 of 2\n");
}

}  // namespace
}  // namespace rz::testing
