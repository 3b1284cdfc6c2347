#include "tools/bench/against/against_run.h"

#include <sys/stat.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tools/bench/result_files.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Stands for all programs: ringzero takes 10 us, peers what `peer_us` says.
class AgainstRunTest : public ::testing::Test {
 protected:
  AgainstRunTest() {
    plan_.operations = {BenchOperation::kBroadcast};
    plan_.sizes = {8, 64};
    plan_.peers = {PeerLibrary::kOpenMpi, PeerLibrary::kGloo};
    plan_.budget = absl::Milliseconds(1);
    plan_.place = {.folder = ::testing::TempDir(), .ranks = 2, .processors = 2};
    plan_.own = {{"ringzero", "plain", {"rz_bench"}}};
    for (const char* name : {"openmpi", "gloo"}) Touch(name);
  }

  void Touch(const std::string& peer) {
    const std::string path = absl::StrCat(plan_.place.folder, "/coll_", peer);
    std::ofstream file(path);
    file.close();
    chmod(path.c_str(), 0755);
  }

  absl::StatusOr<std::string> Answer(const std::vector<std::string>& command) {
    commands_.push_back(command);
    std::vector<std::string> sizes;
    std::string json_path;
    for (size_t i = 0; i + 1 < command.size(); ++i) {
      if (command[i] == "--sizes") sizes = absl::StrSplit(command[i + 1], ',');
      if (command[i] == "--json") json_path = command[i + 1];
    }
    if (command[0] == "rz_bench") {
      std::vector<ResultRow> rows;
      for (const std::string& size : sizes) {
        ResultRow row;
        row.operation = BenchOperation::kBroadcast;
        row.size_bytes = std::stoll(size);
        row.in_place = HalfResult{.time_us = 10};
        row.limit_us = 5;
        rows.push_back(row);
      }
      RZ_CHECK_OK(WriteFile(json_path, ToJson({}, rows)));
      return "";
    }
    for (const std::string& word : command) {
      if (word == failing_word_) return absl::AbortedError("it broke");
    }
    std::string output;
    for (const std::string& size : sizes) {
      absl::StrAppend(&output, "broadcast ", size, " in_place ", peer_us_, "\n");
    }
    return output;
  }

  static void RZ_CHECK_OK(const absl::Status& status) { ASSERT_OK(status); }

  absl::Status Run() {
    AgainstRun run(
        plan_,
        [this](const std::vector<std::string>& command, const ChildEnvironment&, absl::Duration) {
          return Answer(command);
        },
        [this](const std::string& line) { absl::StrAppend(&output_, line, "\n"); });
    return run.Run();
  }

  AgainstPlan plan_;
  double peer_us_ = 25;
  std::string failing_word_ = "none";
  std::vector<std::vector<std::string>> commands_;
  std::string output_;
};

TEST(ComparableSizesTest, SizesAreWholeElementsOfEachRank) {
  EXPECT_THAT(ComparableSizes({64, 0, 8, 13}, 2), ElementsAre(8, 64));
  EXPECT_THAT(ComparableSizes({8, 100}, 4), ElementsAre(16, 96));
}

TEST_F(AgainstRunTest, RoundsAlternateAndTheTableHasTheRatio) {
  ASSERT_OK(Run());
  // Three rounds of ringzero, two settings of Open MPI, one of Gloo.
  ASSERT_EQ(commands_.size(), 12);
  EXPECT_EQ(commands_[0][0], "rz_bench");
  EXPECT_EQ(commands_[4][0], "mpirun.openmpi");  // the second round begins with another
  EXPECT_THAT(output_, AllOf(HasSubstr("# broadcast, float, in place"), HasSubstr("2.50"),
                             HasSubstr("least 2.50 at 8 B"), HasSubstr("# openmpi a: ob1")));
}

TEST_F(AgainstRunTest, ASettingThatFailsIsLeftOutWithItsReason) {
  failing_word_ = "ucx";
  ASSERT_OK(Run());
  EXPECT_EQ(commands_.size(), 10);  // it is not tried again
  EXPECT_THAT(output_, AllOf(HasSubstr("# openmpi (ucx"),
                             HasSubstr("left out of broadcast: it broke"), HasSubstr("2.50")));
}

TEST_F(AgainstRunTest, OutOfTheBoxIsShownButNotTheBest) {
  plan_.out_of_the_box = true;
  ASSERT_OK(Run());
  EXPECT_THAT(output_, HasSubstr("openmpi-default"));
  EXPECT_THAT(output_, Not(HasSubstr("  openmpi-default\n")));
}

TEST_F(AgainstRunTest, EveryWayToRunRingzeroHasItsColumn) {
  plan_.own.push_back({"registered", "on shared memory", {"rz_bench", "-R", "1"}});
  plan_.limit = true;
  ASSERT_OK(Run());
  EXPECT_EQ(commands_.size(), 15);
  EXPECT_EQ(commands_[1][2], "1");
  EXPECT_NE(commands_[1].back(), "--limit");  // once is enough
  EXPECT_THAT(output_, AllOf(HasSubstr("# best peer / ringzero: mean 2.50"),
                             HasSubstr("# best peer / registered: mean 2.50"),
                             HasSubstr("# registered a: on shared memory")));
}

TEST_F(AgainstRunTest, TheLimitIsShownButNoPeer) {
  plan_.limit = true;
  ASSERT_OK(Run());
  EXPECT_EQ(commands_[0].back(), "--limit");
  EXPECT_THAT(output_, AllOf(HasSubstr("0.50"), HasSubstr("least 2.50 at 8 B")));
}

TEST_F(AgainstRunTest, APeerThatIsNotInstalledIsOneLine) {
  plan_.peers.push_back(PeerLibrary::kMpich);
  ASSERT_OK(Run());
  EXPECT_THAT(output_, HasSubstr("# mpich: left out, there is no "));
  plan_.peers = {PeerLibrary::kMpich};
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("tools/setup --with peers")));
}

TEST_F(AgainstRunTest, AnOperationNoPeerHasIsOneLine) {
  plan_.operations = {BenchOperation::kAllToAllV};
  ASSERT_OK(Run());
  EXPECT_TRUE(commands_.empty());
  EXPECT_THAT(output_, HasSubstr("# all_to_all_v: no peer has it"));
}

}  // namespace
}  // namespace rz
