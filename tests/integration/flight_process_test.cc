// Flight records from end to end: ranks under rz_run write them on failure and on SIGUSR2, running
// or standing still, and rz_flight says from their files where the ranks part.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/subprocess.h"

namespace rz {
namespace {

using ::rz::testing::ProgramPath;
using ::rz::testing::Subprocess;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kWorld = 4;

class FlightProcessTest : public ::testing::Test {
 protected:
  FlightProcessTest()
      : directory_(absl::StrCat(::testing::TempDir(), "/flight_",
                                ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(directory_);
  }

  std::vector<std::string> Command(const std::string& task) const {
    return {ProgramPath("tools/rz_run"),
            "-n",
            absl::StrCat(kWorld),
            "--",
            ProgramPath("tests/integration/flight_worker"),
            task};
  }

  Subprocess::Environment Variables() const { return {{"RZ_FLIGHT_DIR", directory_}}; }

  // Those that are there as a whole.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    std::error_code none_yet;
    for (const auto& entry : std::filesystem::directory_iterator(directory_, none_yet)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  // As a user does: asks all ranks through the launcher.
  std::vector<std::string> AskForFiles(Subprocess& run) const {
    run.Signal(SIGUSR2);
    std::vector<std::string> files;
    // Bounded by the test's own time.
    while ((files = Files()).size() < kWorld) usleep(1000);
    return files;
  }

  static std::string Report(std::vector<std::string> files) {
    files.insert(files.begin(), ProgramPath("tools/rz_flight"));
    Subprocess rz_flight(files);
    EXPECT_EQ(rz_flight.Wait(), 0);
    EXPECT_TRUE(rz_flight.WaitUntilNothingIsLeft());
    EXPECT_EQ(rz_flight.ErrorOutput(), "");
    return rz_flight.Output();
  }

  static void AwaitCallers(Subprocess& run, int callers) {
    for (int r = 0; r < callers; ++r) {
      EXPECT_TRUE(run.WaitForOutput(absl::StrCat("rank ", r, " called all_gather")));
    }
  }

  static void ExpectGoodEnd(Subprocess& run) {
    EXPECT_EQ(run.Wait(), 0) << run.ErrorOutput();
    EXPECT_TRUE(run.WaitUntilNothingIsLeft());
  }

  const std::string directory_;
};

TEST_F(FlightProcessTest, ARankThatHasNotCalledIsFoundWhileAllStandStill) {
  Subprocess run(Command("late"), "", Variables());
  AwaitCallers(run, kWorld - 1);
  ASSERT_TRUE(run.WaitForOutput("rank 3 waits"));
  const std::string report = Report(AskForFiles(run));
  EXPECT_THAT(report, HasSubstr("\nrank 3 has not called all_gather #41; its last one, all_reduce "
                                "#40, is done\n"));
  EXPECT_THAT(report, AllOf(HasSubstr("4 of 4 ranks"), HasSubstr("SIGUSR2")));
  run.Signal(SIGUSR1);
  ExpectGoodEnd(run);
}

TEST_F(FlightProcessTest, ARankThatIsBehindIsFoundWithItsPlace) {
  Subprocess run(Command("stuck"), "", Variables());
  ASSERT_TRUE(run.WaitForOutput("rank 3 waits"));
  run.Signal(SIGUSR1);
  AwaitCallers(run, kWorld - 1);
  EXPECT_THAT(Report(AskForFiles(run)),
              HasSubstr("\nrank 3 has not called all_gather #42; it is in reduce_scatter #41, step "
                        "0, waiting for rank 2\n"));
  run.Signal(SIGUSR1);
  ExpectGoodEnd(run);
}

TEST_F(FlightProcessTest, ARunningJobIsNotDisturbed) {
  Subprocess run(Command("run"), "", Variables());
  for (int r = 0; r < kWorld; ++r) {
    ASSERT_TRUE(run.WaitForOutput(absl::StrCat("rank ", r, " runs")));
  }
  for (int i = 0; i < 3; ++i) {
    const std::string report = Report(AskForFiles(run));
    EXPECT_THAT(report, AllOf(HasSubstr("4 of 4 ranks"), HasSubstr("all_reduce of 1000 float32")));
    std::filesystem::remove_all(directory_);
  }
  run.Signal(SIGUSR1);
  ExpectGoodEnd(run);
}

TEST_F(FlightProcessTest, FailedRanksWriteByThemselves) {
  Subprocess run(Command("differ"), "", Variables());
  EXPECT_NE(run.Wait(), 0);
  EXPECT_TRUE(run.WaitUntilNothingIsLeft());
  ASSERT_EQ(Files().size(), static_cast<size_t>(kWorld));
  EXPECT_THAT(
      Report(Files()),
      AllOf(ContainsRegex("\noperation 41: rank [012] called all_reduce of 1000 float32 sum, "
                          "rank 3 called all_gather of 4000 float32\n"),
            HasSubstr("rank 2: taken "), Not(HasSubstr("no file of rank"))));
}

TEST_F(FlightProcessTest, TheFileOfADeadRankIsMissed) {
  Subprocess run(Command("die"), "", Variables());
  AwaitCallers(run, kWorld - 1);
  run.Signal(SIGUSR1);
  EXPECT_NE(run.Wait(), 0);
  EXPECT_TRUE(run.WaitUntilNothingIsLeft());
  ASSERT_EQ(Files().size(), static_cast<size_t>(kWorld - 1));
  EXPECT_THAT(
      Report(Files()),
      AllOf(HasSubstr("no file of rank 3"), HasSubstr("killed by signal 9"),
            HasSubstr("\nall of these ranks have called all_gather #41; rank 0 failed in it"),
            HasSubstr("rank 2 failed in it, step 0, waiting for rank 3\n")));
}

}  // namespace
}  // namespace rz
