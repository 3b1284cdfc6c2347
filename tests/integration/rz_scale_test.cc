// rz_scale as a program: what it prints, writes and returns.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/subprocess.h"

namespace rz {
namespace {

using ::rz::testing::Ending;
using ::rz::testing::EndOf;
using ::rz::testing::ProgramPath;
using ::rz::testing::Subprocess;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Ending RzScale(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ProgramPath("tools/rz_scale"));
  Subprocess run(arguments);
  return EndOf(run);
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RzScaleTest, TableAndFilesAreTheSameTwice) {
  const std::string csv = ::testing::TempDir() + "/scale.csv";
  const std::string figure = ::testing::TempDir() + "/scale.svg";
  const std::vector<std::string> arguments = {
      "reduce_scatter",   "allgather", "--ranks",          "16,100", "--sizes", "1M",
      "--ranks-per-host", "4",         "--host-bandwidth", "50G"};
  const Ending first = RzScale(arguments);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(ContainsRegex("reduce_scatter +16 +1048576 ring +[0-9.]+ +983040 "),
                               ContainsRegex("reduce_scatter +100 +1048576 halving "),
                               ContainsRegex("all_gather +100 +1048576 bruck ")));
  EXPECT_EQ(RzScale(arguments).out, first.out);
  EXPECT_EQ(RzScale({"--ranks", "8", "--sizes", "64K", "--csv", csv, "--plot", figure}).exit_code,
            0);
  EXPECT_THAT(Contents(csv), HasSubstr("all_reduce,8,65536,ring,"));
  EXPECT_THAT(Contents(figure), AllOf(HasSubstr("<svg "), HasSubstr("all_reduce halving")));
}

TEST(RzScaleTest, WrongUsageIsSaidInOneLine) {
  const Ending flag = RzScale({"--ranks-per-hosts", "2"});
  EXPECT_EQ(flag.exit_code, 2);
  EXPECT_THAT(flag.err, HasSubstr("did you mean --ranks-per-host?"));
  EXPECT_THAT(flag.out, IsEmpty());
  const Ending operation = RzScale({"all_redcue"});
  EXPECT_EQ(operation.exit_code, 2);
  EXPECT_THAT(operation.err, HasSubstr("all_reduce"));
  EXPECT_THAT(RzScale({"--help"}).out, HasSubstr("examples:"));
  EXPECT_EQ(RzScale({"--version"}).exit_code, 0);
}

TEST(RzScaleTest, WhatCannotBeWrittenIsNoticedBeforeTheWork) {
  const Ending run = RzScale({"--ranks", "4", "--sizes", "1K", "--csv", "/no/such/folder/x.csv"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("/no/such/folder/x.csv"));
  EXPECT_THAT(run.out, IsEmpty());
}

TEST(RzScaleTest, AFullDiskIsAnErrorAndNothingIsCalledWritten) {
  for (const char* flag : {"--csv", "--json", "--plot"}) {
    const Ending run = RzScale({"--ranks", "4", "--sizes", "1K", flag, "/dev/full"});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr("/dev/full: cannot be written: No space left"));
    EXPECT_THAT(run.out, Not(HasSubstr("Written: ")));
  }
}

}  // namespace
}  // namespace rz
