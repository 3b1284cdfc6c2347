// rz_plan as a program: what it prints, writes and returns.
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

Ending RzPlan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ProgramPath("tools/rz_plan"));
  Subprocess run(arguments);
  return EndOf(run);
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(RzPlanTest, PrintsThePapersTableAndOneSentence) {
  const Ending run = RzPlan({"--params", "7.5G", "--ranks", "64"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(ContainsRegex("ddp +naive +zero-1 +zero-2 +zero-3\n"),
                             ContainsRegex("model states, GB +120 +31.41 +31.41 +16.64 +1.88\n"),
                             ContainsRegex("of what ddp sends +1 +1.5 +1 +1 +1.5\n"),
                             ContainsRegex("\ntake zero-1: [^\n]*\n$")));
  EXPECT_EQ(RzPlan({"-p", "7.5e9", "-n", "64"}).out, run.out);
}

TEST(RzPlanTest, WritesFiles) {
  const std::string csv = ::testing::TempDir() + "/plan.csv";
  const std::string json = ::testing::TempDir() + "/plan.json";
  const Ending run = RzPlan(
      {"--params", "7.5G", "--ranks", "64", "--memory", "20G", "--csv", csv, "--json", json});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("take zero-2"), HasSubstr("written: " + csv),
                             HasSubstr("written: " + json)));
  EXPECT_THAT(Contents(csv), HasSubstr("\nnaive,15000000000,15000000000,468750000,"));
  EXPECT_THAT(Contents(json), HasSubstr("\"recommended\": \"2\""));
}

TEST(RzPlanTest, WrongUsageIsSaidInOneLine) {
  const Ending flag = RzPlan({"--parms", "7G", "--ranks", "2"});
  EXPECT_EQ(flag.exit_code, 2);
  EXPECT_THAT(flag.err, HasSubstr("did you mean --params?"));
  EXPECT_THAT(flag.out, IsEmpty());
  const Ending missing = RzPlan({"--ranks", "2"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("--params is needed"));
  EXPECT_THAT(RzPlan({"--help"}).out, HasSubstr("examples:"));
  EXPECT_EQ(RzPlan({"--version"}).exit_code, 0);
}

TEST(RzPlanTest, WhatCannotBeWrittenIsNoticedBeforeTheWork) {
  const Ending run = RzPlan({"--params", "1G", "--ranks", "4", "--csv", "/no/such/folder/x.csv"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("/no/such/folder/x.csv"));
  EXPECT_THAT(run.out, IsEmpty());
}

TEST(RzPlanTest, AFullDiskIsAnErrorAndNothingIsCalledWritten) {
  for (const char* flag : {"--csv", "--json"}) {
    const Ending run = RzPlan({"--params", "1G", "--ranks", "4", flag, "/dev/full"});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr("/dev/full: cannot be written: No space left"));
    EXPECT_THAT(run.out, Not(HasSubstr("written: ")));
  }
}

}  // namespace
}  // namespace rz
