#include "runtime/launch/socket_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Code = absl::StatusCode;

// A tree of processes that is made of files, and a folder for sockets.
class SocketPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = absl::StrCat(::testing::TempDir(), "/place");
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(absl::StrCat(root_, "/tmp"));
    surroundings_ = {.processes = absl::StrCat(root_, "/proc"),
                     .temporary = absl::StrCat(root_, "/tmp")};
    std::filesystem::create_directories(absl::StrCat(root_, "/proc/self/ns"));
    std::filesystem::create_symlink("pid:[77]", absl::StrCat(root_, "/proc/self/ns/pid"));
  }

  // `rank` of PMI; none: it is not a rank.
  void Start(pid_t id, pid_t parent, int start, const std::string& rank) {
    const std::string folder = absl::StrCat(root_, "/proc/", id);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/stat")
        << id << " (a) (b c) S " << parent << " 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 "
        << start << " 21 22\n";
    std::ofstream environment(folder + "/environ", std::ios::binary);
    environment << "HOME=/" << '\0';
    if (!rank.empty()) environment << "PMI_RANK=" << rank << '\0';
  }

  void End(pid_t id) { std::filesystem::remove_all(absl::StrCat(root_, "/proc/", id)); }

  absl::StatusOr<std::string> Address(pid_t self, const std::string& rank,
                                      const std::string& run = "") {
    surroundings_.self = self;
    Meeting meeting;
    meeting.rank_variable = "PMI_RANK";
    meeting.run = run;
    return SocketAddress(meeting, rank, surroundings_);
  }

  std::string Folder() const { return absl::StrCat(root_, "/tmp/ringzero-", geteuid()); }

  std::string root_;
  SocketSurroundings surroundings_;
};

TEST_F(SocketPlaceTest, RanksOfOneLauncherMeetWhateverLiesBetween) {
  Start(1, 0, 1, "");
  Start(10, 1, 500, "");  // mpirun
  Start(20, 10, 510, "0");
  Start(30, 10, 511, "1");  // a shell, and what it runs
  Start(31, 30, 512, "1");
  ASSERT_OK_AND_ASSIGN(const std::string zero, Address(20, "0"));
  ASSERT_OK_AND_ASSIGN(const std::string one, Address(31, "1"));
  EXPECT_EQ(zero, one);
  EXPECT_THAT(zero, MatchesRegex("unix:.*/tmp/ringzero-[0-9]+/77\\.10\\.500\\.[0-9a-f]+"));
}

TEST_F(SocketPlaceTest, OtherLaunchersAndOtherRunsOfOneAreApart) {
  Start(1, 0, 1, "");
  Start(10, 1, 500, "");
  Start(20, 10, 510, "0");
  ASSERT_OK_AND_ASSIGN(const std::string first, Address(20, "0"));
  ASSERT_OK_AND_ASSIGN(const std::string other_run, Address(20, "0", "step 2"));
  EXPECT_NE(first, other_run);
  Start(10, 1, 900, "");  // the number again, later
  ASSERT_OK_AND_ASSIGN(const std::string later, Address(20, "0"));
  EXPECT_NE(first, later);
}

// slurmstepd is root's: its environment is closed, and with hidepid all of it.
TEST_F(SocketPlaceTest, ALauncherOfAnotherUserIsOneAsWell) {
  Start(10, 1, 500, "");
  std::filesystem::remove(absl::StrCat(root_, "/proc/10/environ"));
  Start(20, 10, 510, "0");
  ASSERT_OK_AND_ASSIGN(const std::string closed, Address(20, "0"));
  EXPECT_THAT(closed, HasSubstr("/77.10.500."));
  End(10);
  ASSERT_OK_AND_ASSIGN(const std::string hidden, Address(20, "0"));
  EXPECT_THAT(hidden, HasSubstr("/77.10.0."));
}

TEST_F(SocketPlaceTest, WithoutALauncherInSightItSaysWhatToDo) {
  Start(1, 0, 1, "0");
  EXPECT_THAT(Address(1, "0"), StatusIs(Code::kFailedPrecondition, HasSubstr("RZ_RENDEZVOUS=")));
}

TEST_F(SocketPlaceTest, TheFolderIsThisUsersAlone) {
  Start(1, 0, 1, "");
  Start(20, 1, 510, "0");
  EXPECT_OK(Address(20, "0"));
  struct stat info;
  ASSERT_EQ(stat(Folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const mode_t wide : {0750, 0701}) {
    ASSERT_EQ(chmod(Folder().c_str(), wide), 0);
    EXPECT_THAT(Address(20, "0"), StatusIs(Code::kPermissionDenied, HasSubstr("with mode 07")));
  }
  // Somebody else's, reached through a link.
  std::filesystem::remove(Folder());
  std::filesystem::create_directory(absl::StrCat(root_, "/theirs"));
  ASSERT_EQ(chmod(absl::StrCat(root_, "/theirs").c_str(), 0700), 0);
  std::filesystem::create_symlink(absl::StrCat(root_, "/theirs"), Folder());
  EXPECT_THAT(Address(20, "0"), StatusIs(Code::kPermissionDenied, HasSubstr("it is none")));
}

TEST_F(SocketPlaceTest, OnlySocketsOfEndedLaunchersAreRemoved) {
  Start(1, 0, 1, "");
  Start(10, 1, 500, "");
  Start(20, 10, 510, "0");
  ASSERT_OK_AND_ASSIGN(const std::string mine, Address(20, "0"));
  const auto path = [&](const std::string& name) { return absl::StrCat(Folder(), "/", name); };
  for (const char* name :
       {"77.10.500.ab", "77.10.499.ab", "77.11.500.ab", "78.11.500.ab", "notes"}) {
    std::ofstream file(path(name));
  }
  RemoveEndedSockets(mine, surroundings_);
  EXPECT_TRUE(std::filesystem::exists(path("77.10.500.ab")));   // it runs
  EXPECT_FALSE(std::filesystem::exists(path("77.10.499.ab")));  // its number is another's
  EXPECT_FALSE(std::filesystem::exists(path("77.11.500.ab")));  // it has ended
  EXPECT_TRUE(std::filesystem::exists(path("78.11.500.ab")));   // it cannot be seen from here
  EXPECT_TRUE(std::filesystem::exists(path("notes")));
}

// The tree of this machine: a test is no rank, so whoever started it is the launcher.
TEST(SocketPlaceOfThisProcessTest, TheRealTreeIsRead) {
  const SocketSurroundings surroundings = {.temporary = ::testing::TempDir()};
  Meeting meeting;
  meeting.rank_variable = "PMI_RANK";
  ASSERT_OK_AND_ASSIGN(const std::string address, SocketAddress(meeting, "0", surroundings));
  EXPECT_THAT(address, HasSubstr(absl::StrCat(".", getppid(), ".")));
  EXPECT_THAT(address, ::testing::Not(HasSubstr(absl::StrCat(".", getppid(), ".0."))));
}

}  // namespace
}  // namespace rz
