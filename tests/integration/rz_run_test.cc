// rz_run and rz_rendezvous with real processes.
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/integration/subprocess.h"

namespace rz {
namespace {

using ::rz::testing::EndOf;
using ::rz::testing::ProgramPath;
using ::rz::testing::Subprocess;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::UnorderedElementsAre;

std::vector<std::string> RzRun(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ProgramPath("tools/rz_run"));
  return arguments;
}

std::vector<std::string> Shell(int ranks, const std::string& script,
                               const std::string& grace = "100") {
  return RzRun({"-n", absl::StrCat(ranks), "--grace", grace, "--", "/bin/sh", "-c", script});
}

std::string Worker() { return ProgramPath("tests/integration/test_worker"); }

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  return lines;
}

TEST(RzRunTest, RanksMeetAndTheirLinesCarryThePrefix) {
  Subprocess run(RzRun({"-n", "4", "--", Worker(), "meet"}));
  EXPECT_EQ(EndOf(run).exit_code, 0) << run.ErrorOutput();
  EXPECT_THAT(Lines(run.Output()),
              UnorderedElementsAre("[0] rank 0 of 4 has joined", "[1] rank 1 of 4 has joined",
                                   "[2] rank 2 of 4 has joined", "[3] rank 3 of 4 has joined"));
  EXPECT_EQ(run.ErrorOutput(), "");
}

TEST(RzRunTest, ASingleRankWritesUnchanged) {
  Subprocess run(Shell(1, "printf 'a\\rb'; cat; printf error >&2"), "from stdin");
  EXPECT_EQ(EndOf(run).exit_code, 0);
  EXPECT_EQ(run.Output(), "a\rbfrom stdin");
  EXPECT_EQ(run.ErrorOutput(), "error");
}

TEST(RzRunTest, TheEnvironmentSaysWhoARankIs) {
  Subprocess run(
      Shell(2, "echo $RZ_RANK/$RZ_LOCAL_RANK/$RZ_WORLD_SIZE; echo ${RZ_RENDEZVOUS%:*} ${#RZ_JOB}"));
  EXPECT_EQ(EndOf(run).exit_code, 0);
  EXPECT_THAT(Lines(run.Output()), UnorderedElementsAre("[0] 0/0/2", "[1] 1/1/2",
                                                        "[0] 127.0.0.1 39", "[1] 127.0.0.1 39"));
}

TEST(RzRunTest, LinesOfManyRanksDoNotMixAndLastPartialLinesArrive) {
  Subprocess run(
      Shell(8,
            "i=0; while [ $i -lt 200 ]; do printf 'line '; printf \"$i of $RZ_RANK\\n\"; "
            "i=$((i+1)); done; printf 'last of %s' $RZ_RANK"));
  EXPECT_EQ(EndOf(run).exit_code, 0);
  std::map<std::string, int> count;
  for (const std::string& line : Lines(run.Output())) {
    std::smatch match;
    ASSERT_TRUE(
        std::regex_match(line, match, std::regex("\\[([0-7])\\] (line [0-9]+|last) of ([0-7])")))
        << line;
    EXPECT_EQ(match[1], match[3]);
    ++count[match[1]];
  }
  EXPECT_EQ(count.size(), 8);
  for (const auto& [rank, lines] : count) EXPECT_EQ(lines, 201);
}

TEST(RzRunTest, OnlyRankZeroReadsTheInput) {
  Subprocess run(Shell(2, "read line; echo \"got '$line'\""), "hello\n");
  EXPECT_EQ(EndOf(run).exit_code, 0);
  EXPECT_THAT(Lines(run.Output()), UnorderedElementsAre("[0] got 'hello'", "[1] got ''"));
}

TEST(RzRunTest, TheFirstFailingRankGivesNameAndExitCode) {
  Subprocess run(Shell(3, "if [ $RZ_RANK = 1 ]; then exit 3; fi; sleep 1000", "0.1"));
  EXPECT_EQ(EndOf(run).exit_code, 3);
  EXPECT_EQ(run.ErrorOutput(), "rz_run: rank 1 ended: exit status 3\n");
}

TEST(RzRunTest, ARankThatIgnoresSigtermIsKilled) {
  Subprocess run(Shell(
      2, "trap '' TERM; if [ $RZ_RANK = 0 ]; then exit 7; fi; while :; do sleep 1; done", "0.1"));
  EXPECT_EQ(EndOf(run).exit_code, 7);
}

TEST(RzRunTest, AStoppedRankIsEndedToo) {
  Subprocess run(Shell(2, "if [ $RZ_RANK = 0 ]; then exit 7; fi; kill -STOP $$", "0.1"));
  EXPECT_EQ(EndOf(run).exit_code, 7);
}

TEST(RzRunTest, AKilledRankIsTheVerdictOfAllOthers) {
  // Nobody needs to be terminated: the grace is longer than the test may take.
  Subprocess run(RzRun({"-n", "4", "--grace", "1000", "--", Worker(), "die-by-signal", "2"}));
  EXPECT_EQ(EndOf(run).exit_code, 128 + SIGKILL);
  EXPECT_EQ(run.ErrorOutput(), "rz_run: rank 2 ended: killed by signal 9 (Killed)\n");
  for (int rank : {0, 1, 3}) {
    EXPECT_THAT(run.Output(),
                HasSubstr(absl::StrCat("[", rank,
                                       "] verdict: rank 2 ended: killed by signal 9 (Killed)\n")));
  }
}

TEST(RzRunTest, ARanksOwnReportComesBeforeItsExitStatus) {
  Subprocess run(RzRun({"-n", "3", "--grace", "1000", "--", Worker(), "fail", "1"}));
  EXPECT_EQ(EndOf(run).exit_code, 5);
  EXPECT_EQ(run.ErrorOutput(), "rz_run: rank 1 ended: exit status 5 (rank 1 failed: disk full)\n");
  EXPECT_THAT(run.Output(), HasSubstr("[0] verdict: rank 1 failed: disk full\n"));
}

// `ending` of rank 2, and the workers around it; nobody needs to be terminated.
std::vector<std::string> EndsBeforeJoining(const std::string& ending,
                                           const std::vector<std::string>& flags = {}) {
  std::vector<std::string> command = RzRun({"-n", "4", "--grace", "1000"});
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {"--", "/bin/sh", "-c",
                                 absl::StrCat("if [ $RZ_RANK = 2 ]; then ", ending, "; fi; exec ",
                                              Worker(), " meet")});
  return command;
}

TEST(RzRunTest, ARankThatExitsBeforeItJoinsIsNotWaitedFor) {
  Subprocess run(EndsBeforeJoining("exit 0"));
  EXPECT_EQ(EndOf(run).exit_code, 1);
  for (int rank : {0, 1, 3}) {
    EXPECT_THAT(
        run.ErrorOutput(),
        HasSubstr(absl::StrCat("[", rank, "] rank 2 ended before it joined: exit status 0\n")));
  }
  EXPECT_THAT(run.ErrorOutput(),
              ContainsRegex("rz_run: rank [013] ended: exit status 1 "
                            "\\(rank 2 ended before it joined: exit status 0\\)\n"));
}

TEST(RzRunTest, ARankThatIsKilledBeforeItJoinsIsNotWaitedFor) {
  Subprocess run(EndsBeforeJoining("kill -KILL $$"));
  EXPECT_EQ(EndOf(run).exit_code, 128 + SIGKILL);
  EXPECT_THAT(run.ErrorOutput(),
              AllOf(HasSubstr("] rank 2 ended before it joined: killed by signal 9 (Killed)\n"),
                    HasSubstr("rz_run: rank 2 ended: killed by signal 9 (Killed)")));
}

TEST(RzRunTest, RanksThatNeverJoinAreNoFailure) {
  Subprocess run(RzRun({"-n", "4", "--", "true"}));
  EXPECT_EQ(EndOf(run).exit_code, 0);
  EXPECT_EQ(run.ErrorOutput(), "");
}

TEST(RzRunTest, TimeoutsGoOnToTheRanks) {
  const std::string script = "echo $RZ_JOIN_TIMEOUT/$RZ_CONNECT_TIMEOUT";
  Subprocess run(RzRun(
      {"-n", "1", "--join-timeout", "1.5m", "--connect-timeout=7", "--", "/bin/sh", "-c", script}));
  EXPECT_EQ(EndOf(run).exit_code, 0);
  EXPECT_EQ(run.Output(), "1m30s/7s\n");
  Subprocess from_environment(RzRun({"-n", "1", "--", "/bin/sh", "-c", script}), "",
                              {{"RZ_JOIN_TIMEOUT", "9s"}});
  EXPECT_EQ(EndOf(from_environment).exit_code, 0);
  EXPECT_EQ(from_environment.Output(), "9s/\n");
}

TEST(RzRunTest, ARankThatDoesNotComeInTimeIsNamed) {
  Subprocess run(
      RzRun({"-n", "2", "--join-timeout", "100ms", "--", "/bin/sh", "-c",
             absl::StrCat("if [ $RZ_RANK = 1 ]; then sleep 1000; fi; exec ", Worker(), " meet")}));
  EXPECT_EQ(EndOf(run).exit_code, 1);
  EXPECT_THAT(run.ErrorOutput(), HasSubstr("1 of 2 ranks joined within 100ms; missing rank 1"));
}

// What it passes on is the launcher's to lose.
TEST(RzRunTest, AFullDiskIsNoticedAndNamed) {
  for (const char* ending : {"exit 0", "while :; do echo more; done"}) {
    Subprocess run(
        {"/bin/sh", "-c",
         absl::StrCat("exec ", ProgramPath("tools/rz_run"),
                      " -n 2 --grace 100 -- sh -c 'echo text; ", ending, "' > /dev/full")});
    EXPECT_EQ(EndOf(run).exit_code, 1) << ending;
    EXPECT_THAT(run.ErrorOutput(),
                HasSubstr("rz_run: cannot write to standard output: No space left on device\n"));
  }
}

TEST(RzRunTest, AProgramThatCannotRunIsNamed) {
  Subprocess absent(RzRun({"-n", "2", "--", "/no/such/program"}));
  EXPECT_EQ(EndOf(absent).exit_code, 127);
  EXPECT_EQ(absent.ErrorOutput(),
            "rz_run: cannot run '/no/such/program': No such file or directory\n");
  Subprocess no_program(RzRun({"-n", "2", "--", "/"}));
  EXPECT_EQ(EndOf(no_program).exit_code, 126);
}

TEST(RzRunTest, MisuseIsOneLineAndExitCodeTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"-n", "0", "--", "true"}, "1 to 16384, not '0'"},
      {{"-n", "16385", "--", "true"}, "not '16385'"},
      {{"-n", "-1", "--", "true"}, "not '-1'"},
      {{"-n", "x", "--", "true"}, "whole number"},
      {{"-n", "2"}, "no program"},
      {{"true"}, "put -- before"},
      {{"--rnaks", "2", "--", "true"}, "did you mean --ranks?"},
      {{"--nodes", "2", "--", "true"}, "--rendezvous"},
      {{"-n", "9000", "--nodes", "2", "--rendezvous", "h:1", "--", "true"}, "16384"},
      {{"--node-rank", "1", "--", "true"}, "--node-rank 1"},
      {{"--rendezvous", "nowhere", "--", "true"}, "not HOST:PORT"},
      {{"--join-timeout", "0", "--", "true"}, "from 1ms to 1h, not '0'"},
      {{"--connect-timeout", "2h", "--", "true"}, "from 1ms to 1h, not '2h'"},
      {{"--grace", "-1", "--", "true"}, "from 0 to 1h, not '-1'"},
  };
  for (const auto& [arguments, message] : cases) {
    Subprocess run(RzRun(arguments));
    EXPECT_EQ(EndOf(run).exit_code, 2) << message;
    EXPECT_THAT(run.ErrorOutput(), AllOf(HasSubstr("rz_run: "), HasSubstr(message)));
    EXPECT_EQ(Lines(run.ErrorOutput()).size(), 1);
  }
}

TEST(RzRunTest, HelpShowsExamples) {
  Subprocess run(RzRun({"--help"}));
  EXPECT_EQ(EndOf(run).exit_code, 0);
  EXPECT_THAT(run.Output(), AllOf(HasSubstr("examples:"), HasSubstr("rz_run -n 4")));
}

TEST(RzRunTest, ASignalGoesToAllRanks) {
  Subprocess run(
      Shell(2, "trap 'echo stopping; exit 0' TERM; echo ready; while :; do sleep 0.1; done"));
  ASSERT_TRUE(run.WaitForOutput("[0] ready"));
  ASSERT_TRUE(run.WaitForOutput("[1] ready"));
  run.Signal(SIGTERM);
  EXPECT_EQ(EndOf(run).exit_code, 0);
  EXPECT_THAT(run.Output(), AllOf(HasSubstr("[0] stopping"), HasSubstr("[1] stopping")));
  // The shells may have said that their sleep was terminated.
  EXPECT_THAT(run.ErrorOutput(),
              ::testing::EndsWith("rz_run: stopped by signal 15 (Terminated)\n"));
}

TEST(RzRunTest, AnInterruptThatEndsTheRanksIsTheExitCode) {
  // No shell: one that is about to run a program may lose the signal.
  Subprocess run(RzRun({"-n", "2", "--grace", "1000", "--", Worker(), "wait"}));
  ASSERT_TRUE(run.WaitForOutput("[0] rank 0 of 2 has joined"));
  ASSERT_TRUE(run.WaitForOutput("[1] rank 1 of 2 has joined"));
  run.Signal(SIGINT);
  EXPECT_EQ(EndOf(run).exit_code, 128 + SIGINT);
}

TEST(RzRunTest, ASecondSignalKillsAtOnce) {
  // The ranks ignore the first; the grace is longer than the test may take.
  Subprocess run(Shell(2, "trap 'echo no' TERM; echo ready; while :; do sleep 0.1; done", "1000"));
  ASSERT_TRUE(run.WaitForOutput("[0] ready"));
  ASSERT_TRUE(run.WaitForOutput("[1] ready"));
  run.Signal(SIGTERM);
  ASSERT_TRUE(run.WaitForOutput("[0] no"));
  run.Signal(SIGTERM);
  EXPECT_EQ(EndOf(run).exit_code, 128 + SIGTERM);
}

TEST(RzRunTest, WhatARankLeavesInItsGroupIsKilled) {
  Subprocess run(Shell(2, "sleep 1000 & echo started"));
  EXPECT_EQ(EndOf(run).exit_code, 0);
}

TEST(RzRunTest, NothingSurvivesThatTheLauncherIsKilled) {
  Subprocess run(Shell(3, "sleep 1000 & echo ready; wait"));
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(run.WaitForOutput(absl::StrCat("[", rank, "] ready")));
  }
  run.Signal(SIGKILL);
  EXPECT_EQ(EndOf(run).exit_code, 128 + SIGKILL);
}

TEST(RzRunTest, RanksNoticeThatNobodyReadsTheirOutput) {
  Subprocess run({"/bin/sh", "-c",
                  absl::StrCat("{ ", ProgramPath("tools/rz_run"),
                               " -n 2 --grace 100 -- yes; echo code $? >&2; } | head -n 1")});
  EXPECT_EQ(EndOf(run).exit_code, 0);
  EXPECT_THAT(run.ErrorOutput(), HasSubstr(absl::StrCat("code ", 128 + SIGPIPE)));
}

// A rendezvous of its own and the workers around it.
class RzRendezvousTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {ProgramPath("tools/rz_rendezvous"), "--listen", "127.0.0.1:0"});
    server_ = std::make_unique<Subprocess>(flags, "", Subprocess::Environment{{"RZ_LOG", "info"}});
    const std::string announced = "rendezvous listens on ";
    ASSERT_TRUE(server_->WaitForOutput(announced));
    ASSERT_TRUE(server_->WaitForOutput("\n"));
    address_ = server_->Output().substr(announced.size());
    address_ = address_.substr(0, address_.find('\n'));
  }

  std::unique_ptr<Subprocess> StartWorker(const std::string& task, int world,
                                          std::optional<int> rank = std::nullopt) {
    Subprocess::Environment environment = {{"RZ_RENDEZVOUS", address_},
                                           {"RZ_WORLD_SIZE", absl::StrCat(world)}};
    if (rank.has_value()) environment.emplace_back("RZ_RANK", absl::StrCat(*rank));
    return std::make_unique<Subprocess>(std::vector<std::string>{Worker(), task}, "", environment);
  }

  std::unique_ptr<Subprocess> server_;
  std::string address_;
};

TEST_F(RzRendezvousTest, HandStartedWorkersMeetAndTheServerStopsCleanly) {
  Start();
  std::vector<std::unique_ptr<Subprocess>> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(StartWorker("meet", 3));
  std::vector<std::string> outputs;
  for (auto& worker : workers) {
    EXPECT_EQ(EndOf(*worker).exit_code, 0) << worker->ErrorOutput();
    outputs.push_back(worker->Output());
  }
  EXPECT_THAT(outputs, UnorderedElementsAre("rank 0 of 3 has joined\n", "rank 1 of 3 has joined\n",
                                            "rank 2 of 3 has joined\n"));
  server_->Signal(SIGTERM);
  EXPECT_EQ(EndOf(*server_).exit_code, 0);
  EXPECT_THAT(server_->ErrorOutput(), HasSubstr("rank 2 of 3 joined epoch 1"));
}

TEST_F(RzRendezvousTest, AWorkerKilledWithoutALauncherIsStillNamed) {
  Start();
  std::vector<std::unique_ptr<Subprocess>> workers;
  for (int rank = 0; rank < 3; ++rank) workers.push_back(StartWorker("wait", 3, rank));
  for (auto& worker : workers) ASSERT_TRUE(worker->WaitForOutput("has joined"));
  workers[1]->Signal(SIGKILL);
  for (int rank : {0, 2}) {
    EXPECT_EQ(EndOf(*workers[rank]).exit_code, 4);
    EXPECT_THAT(workers[rank]->Output(),
                HasSubstr("verdict: rank 1: connection to the rendezvous lost\n"));
  }
}

TEST_F(RzRendezvousTest, TwoLaunchersShareOneJobAndOneVerdict) {
  Start();
  const auto launch = [&](int node) {
    return std::make_unique<Subprocess>(
        RzRun({"-n", "2", "--nodes", "2", "--node-rank", absl::StrCat(node), "--rendezvous",
               address_, "--grace", "1000", "--", Worker(), "die-by-signal", "3"}));
  };
  const auto zero = launch(0), one = launch(1);
  EXPECT_EQ(EndOf(*one).exit_code, 128 + SIGKILL);
  EXPECT_THAT(one->ErrorOutput(), HasSubstr("rank 3 ended: killed by signal 9 (Killed)"));
  EXPECT_EQ(EndOf(*zero).exit_code, 4);
  for (const char* line : {"[0] verdict: rank 3 ended: killed by signal 9 (Killed)\n",
                           "[1] verdict: rank 3 ended: killed by signal 9 (Killed)\n"}) {
    EXPECT_THAT(zero->Output(), HasSubstr(line));
  }
  EXPECT_THAT(zero->ErrorOutput(), HasSubstr("exit status 4 (rank 3 ended: killed by signal 9"));
}

TEST_F(RzRendezvousTest, ALauncherTellsAnotherServerOfARankThatEndsBeforeItJoins) {
  Start();
  for (const char* ending : {"exit 0", "kill -KILL $$"}) {
    Subprocess run(EndsBeforeJoining(ending, {"--rendezvous", address_}));
    EXPECT_NE(EndOf(run).exit_code, 0);
    EXPECT_THAT(run.ErrorOutput(), HasSubstr("[0] rank 2 ended before it joined: "));
  }
  // The same job again, whole.
  Subprocess again(RzRun({"-n", "4", "--rendezvous", address_, "--", Worker(), "meet"}));
  EXPECT_EQ(EndOf(again).exit_code, 0) << again.ErrorOutput();
}

TEST_F(RzRendezvousTest, AWrongWorldSizeIsRefusedWithBothValues) {
  Start();
  const auto first = StartWorker("wait", 2, 0);
  ASSERT_TRUE(server_->WaitForOutput("asks to join job 'default' of 2 ranks as rank 0"));
  const auto other = StartWorker("meet", 3, 1);
  EXPECT_EQ(EndOf(*other).exit_code, 1);
  EXPECT_THAT(other->ErrorOutput(), AllOf(HasSubstr("world size 2"), HasSubstr("says 3")));
}

TEST(RzRendezvousFlagsTest, ReachableAddressesAndTakenPortsAreRefusedInOneLine) {
  Subprocess reachable({ProgramPath("tools/rz_rendezvous"), "--listen", "0.0.0.0:0"});
  EXPECT_EQ(EndOf(reachable).exit_code, 1);
  EXPECT_THAT(reachable.ErrorOutput(), HasSubstr("--insecure"));
  Subprocess full({"/bin/sh", "-c",
                   absl::StrCat("exec ", ProgramPath("tools/rz_rendezvous"),
                                " --listen 127.0.0.1:0 > /dev/full")});
  EXPECT_EQ(EndOf(full).exit_code, 1);
  EXPECT_EQ(full.ErrorOutput(),
            "rz_rendezvous: cannot write to standard output: No space left on device\n");
  Subprocess malformed({ProgramPath("tools/rz_rendezvous"), "--listen", "nowhere"});
  EXPECT_EQ(EndOf(malformed).exit_code, 2);
  EXPECT_EQ(Lines(malformed.ErrorOutput()).size(), 1);
}

}  // namespace
}  // namespace rz
