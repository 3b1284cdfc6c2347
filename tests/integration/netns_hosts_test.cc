// tools/netns_hosts, and ranks on the hosts that it makes. Skipped where hosts cannot be made.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
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
using ::testing::Not;
using ::testing::SizeIs;

using Arguments = std::vector<std::string>;

constexpr int kCannot = 77;

// `script` on every host, for sh.
Arguments OnHosts(Arguments flags, const std::string& script) {
  flags.insert(flags.begin(), ProgramPath("tools/netns_hosts"));
  flags.insert(flags.end(), {"--", "sh", "-c", script});
  return flags;
}

Ending RunOnHosts(const Arguments& flags, const std::string& script) {
  Subprocess program(OnHosts(flags, script));
  return EndOf(program);
}

// What begins with `start`, without it.
std::vector<std::string> LinesAfter(const std::string& text, const std::string& start) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, start)) lines.emplace_back(line);
  }
  return lines;
}

// What stands for good in the namespaces of this process: its devices and mounts.
std::string Surroundings() {
  std::stringstream text;
  std::set<std::string> devices;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net")) {
    devices.insert(entry.path().filename());
  }
  for (const std::string& device : devices) text << device << "\n";
  text << std::ifstream("/proc/self/mountinfo").rdbuf();
  return text.str();
}

// The process id that the first line on standard error has of `host`; 0 where it has none.
pid_t InitOf(const std::string& err, const std::string& host) {
  const std::vector<std::string> words = absl::StrSplit(err, absl::ByAnyChar(" \n"));
  for (size_t i = 0; i + 3 < words.size(); ++i) {
    int pid = 0;
    if (words[i] == host && absl::SimpleAtoi(words[i + 3], &pid)) return pid;
  }
  return 0;
}

// Lines for sh: a rendezvous on host 0, and what a worker needs to come there as one of `world`.
std::string Meet(int world) {
  return absl::StrCat("if [ $NETNS_HOST = 0 ]; then ", ProgramPath("tools/rz_rendezvous"),
                      " --listen 0.0.0.0:29400 --insecure & fi\n",
                      "export RZ_RENDEZVOUS=host0:29400 RZ_WORLD_SIZE=", world, "\n");
}

// Lines for sh: `command` as many times as `ranks` (a number for sh) says, and the last failure.
std::string Ranks(const std::string& ranks, const std::string& command) {
  return absl::StrCat("ranks='' code=0\nfor i in $(seq $((", ranks, "))); do ", command,
                      " & ranks=\"$ranks $!\"; done\n",
                      "for i in $ranks; do wait $i || code=$?; done\nexit $code\n");
}

std::string TrainCommand(const std::string& flags) {
  return absl::StrCat(ProgramPath("tools/rz_train"),
                      " --dataset=synthetic --model=20-24-16-5 --global-batch=50 ", flags);
}

std::string BenchCommand(const std::string& flags) {
  return absl::StrCat(ProgramPath("tools/rz_bench"), " ", flags, " -n 2 -w 1 -c 1 --bind none");
}

// "weights crc32c XXXXXXXX", which is printed once; "" where it is not.
std::string Weights(const Ending& ending) {
  constexpr char kText[] = "weights crc32c ";
  const size_t at = ending.out.find(kText);
  if (at == std::string::npos || ending.out.find(kText, at + 1) != std::string::npos) return "";
  return ending.out.substr(at, sizeof kText - 1 + 8);
}

std::string WeightsOnOneHost(int ranks, const std::string& flags = "--steps=12") {
  const Arguments train = absl::StrSplit(TrainCommand(flags), ' ');
  Arguments command = {ProgramPath("tools/rz_run"), "-n", absl::StrCat(ranks), "--"};
  command.insert(command.end(), train.begin(), train.end());
  Subprocess program(command);
  return Weights(EndOf(program));
}

class NetnsHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Ending ending = RunOnHosts({"1"}, "true");
    if (ending.exit_code == kCannot) GTEST_SKIP() << ending.err;
    ASSERT_EQ(ending.exit_code, 0) << ending.err;
  }
};

TEST_F(NetnsHostsTest, EachHostHasItsOwnNameAddressMemoryAndProcesses) {
  const Ending ending =
      RunOnHosts({"3"},
                 "hostname; touch /dev/shm/mine-$NETNS_HOST; ls /dev/shm; echo init $PPID\n"
                 "getent hosts host2; echo $NETNS_ADDRESS of $NETNS_HOSTS from $NETNS_ADDRESS_0\n"
                 "ls /sys/class/net | grep -v lo");
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  for (int host = 0; host < 3; ++host) {
    EXPECT_THAT(
        LinesAfter(ending.out, absl::StrCat("[host ", host, "] ")),
        ::testing::ElementsAre(absl::StrCat("host", host), absl::StrCat("mine-", host), "init 1",
                               ContainsRegex("^10.77.0.3 +host2"),
                               absl::StrCat("10.77.0.", host + 1, " of 3 from 10.77.0.1"), "eth0"));
  }
}

TEST_F(NetnsHostsTest, TheFirstFailureIsTheExitStatus) {
  EXPECT_EQ(RunOnHosts({"3"}, "[ $NETNS_HOST != 1 ] || exit 7").exit_code, 7);
  EXPECT_EQ(RunOnHosts({"2"}, "kill -9 $$").exit_code, 137);
}

TEST_F(NetnsHostsTest, OneHostAloneRunsTheCommandWithTheStandardInput) {
  Subprocess program(OnHosts({"3", "--on", "1"}, "hostname; cat; exit 5"), "typed\n");
  const Ending ending = EndOf(program);
  EXPECT_EQ(ending.out, "host1\ntyped\n");
  EXPECT_EQ(ending.exit_code, 5) << ending.err;
}

TEST_F(NetnsHostsTest, RateAndPacketSizeAreWhatWasAskedFor) {
  const Ending limited = RunOnHosts({"2", "--on=0", "--rate", "20mbit", "--mtu", "9000"},
                                    "cat /sys/class/net/eth0/mtu; tc qdisc show dev eth0");
  EXPECT_EQ(limited.exit_code, 0) << limited.err;
  EXPECT_THAT(limited.out, AllOf(HasSubstr("9000\n"), HasSubstr("tbf"), HasSubstr("rate 20Mbit")));
}

TEST_F(NetnsHostsTest, NothingIsLeftWhateverEndsIt) {
  const std::string before = Surroundings();
  for (int signal : {SIGTERM, SIGINT, SIGKILL}) {
    Subprocess program(OnHosts({"2"}, "echo up; sleep 1000 & wait"));
    ASSERT_TRUE(program.WaitForOutput("[host 0] up"));
    ASSERT_TRUE(program.WaitForOutput("[host 1] up"));
    program.Signal(signal);
    EXPECT_EQ(EndOf(program).exit_code, 128 + signal);
    EXPECT_EQ(Surroundings(), before);
  }
}

TEST_F(NetnsHostsTest, WrongUsageIsRefusedInOneLine) {
  const struct {
    Arguments arguments;
    std::string message;
  } kCases[] = {
      {{}, "expected the number of hosts first"},
      {{"0", "--", "true"}, "'0' hosts: expected a number from 1 to 64"},
      {{"65", "--", "true"}, "'65' hosts: expected a number from 1 to 64"},
      {{"2"}, "expected -- COMMAND at the end"},
      {{"2", "--"}, "expected -- COMMAND at the end"},
      {{"2", "true"}, "unexpected 'true' after 2 hosts"},
      {{"2", "--on", "2", "--", "true"}, "--on 2: expected a host from 0 to 1"},
      {{"2", "--rate", "--", "true"}, "--rate needs a value"},
      {{"2", "--rate", "fast", "--", "true"}, "--rate fast: expected a rate such as 1gbit"},
      {{"2", "--mtu", "65536", "--", "true"}, "--mtu 65536: expected bytes from 576 to 65535"},
      {{"2", "--speed", "--", "true"}, "unknown flag '--speed'"},
  };
  for (const auto& [arguments, message] : kCases) {
    Arguments command = {ProgramPath("tools/netns_hosts")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Subprocess program(command);
    const Ending ending = EndOf(program);
    EXPECT_EQ(ending.exit_code, 2);
    EXPECT_THAT(ending.err, HasSubstr(message));
    EXPECT_THAT(LinesAfter(ending.err, "netns_hosts: "), SizeIs(1)) << ending.err;
  }
}

TEST_F(NetnsHostsTest, EqualSharesOfRanksTrainTheWeightsOfOneHost) {
  for (int each : {1, 2}) {
    const Ending ending = RunOnHosts(
        {"2"}, absl::StrCat(Meet(2 * each), ProgramPath("tools/rz_run"), " -n ", each,
                            " --nodes 2 --node-rank $NETNS_HOST --rendezvous host0:29400 -- ",
                            TrainCommand("--steps=12")));
    EXPECT_EQ(ending.exit_code, 0) << ending.err;
    EXPECT_EQ(Weights(ending), WeightsOnOneHost(2 * each)) << ending.out << ending.err;
  }
}

// Each host's two ranks shard the states among themselves, and hold what the other host's do.
TEST_F(NetnsHostsTest, RanksThatShardWithinTheirHostTrainTheWeightsOfOneHost) {
  for (int stage : {1, 2, 3}) {
    const std::string flags =
        absl::StrCat("--steps=12 --clip=1 --stage=", stage, " --shard-group=");
    const Ending ending = RunOnHosts(
        {"2"}, absl::StrCat(Meet(4), ProgramPath("tools/rz_run"),
                            " -n 2 --nodes 2 --node-rank $NETNS_HOST --rendezvous host0:29400 -- ",
                            TrainCommand(flags + "host")));
    EXPECT_EQ(ending.exit_code, 0) << ending.err;
    EXPECT_THAT(ending.out, HasSubstr("4 ranks in groups of 2"));
    EXPECT_EQ(Weights(ending), WeightsOnOneHost(4, flags + "2")) << ending.out << ending.err;
  }
}

TEST_F(NetnsHostsTest, TwoRanksHereAndThreeThereTrainTheWeightsOfOneHost) {
  const Ending ending =
      RunOnHosts({"2"}, absl::StrCat(Meet(5), Ranks("2 + NETNS_HOST", TrainCommand("--steps=12"))));
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_EQ(Weights(ending), WeightsOnOneHost(5)) << ending.out << ending.err;
  // Messages go through memory within a host, the calls do not.
  EXPECT_THAT(ending.out, AllOf(ContainsRegex("transport ucx [^;]*: posix, tcp;"),
                                Not(HasSubstr("the ranks share memory"))));
}

// Of what each call sends to another host, the formula is in hierarchy_test; here ranks are
// processes, and each of two hosts has to send half of what is reduced, or gathered, out of every
// call: one checked, one warm, two timed, out of place and in place.
TEST_F(NetnsHostsTest, TwoRanksHereAndThreeThereWorkWithinTheirHosts) {
  constexpr int64_t kBytes = 4 << 20;
  const std::string bench = BenchCommand(
      "all_reduce all_gather reduce_scatter broadcast reduce -b 4M -e 4M "
      "--numeric fast --algo "
      "all_reduce:hierarchical,all_gather:hierarchical,reduce_scatter:hierarchical,"
      "broadcast:hierarchical,reduce:hierarchical");
  const Ending ending = RunOnHosts({"2"}, absl::StrCat(Meet(5), Ranks("2 + NETNS_HOST", bench)));
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out,
              AllOf(HasSubstr("memory shared within each of 2 hosts"), Not(HasSubstr("FAILED"))));
  const std::vector<std::string> left =
      LinesAfter(ending.out, "[host 0] # Bytes that left a host : ");
  ASSERT_THAT(left, SizeIs(1)) << ending.out;
  int64_t bytes = 0;
  ASSERT_TRUE(absl::SimpleAtoi(std::string(left[0].substr(0, left[0].find(' '))), &bytes));
  EXPECT_GT(bytes, 8 * kBytes);
}

TEST_F(NetnsHostsTest, HostsOfOneNameShareNoMemory) {
  const Ending ending = RunOnHosts({"2"}, absl::StrCat("hostname twin\n", Meet(2), "exec ",
                                                       BenchCommand("all -b 0 -e 1M -f 32")));
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out,
              AllOf(ContainsRegex("Rank  0 .* on +twin "), ContainsRegex("Rank  1 .* on +twin "),
                    ContainsRegex("transport ucx [^:]*: tcp, memory not shared"),
                    Not(HasSubstr("FAILED"))));
}

// Alike are host name, boot id, network and, where not named, /dev/shm.
TEST_F(NetnsHostsTest, ContainersOnOneHostAreToldByProof) {
  constexpr char kOwnMemory[] = "mount -t tmpfs tmpfs /dev/shm; ";
  const struct {
    std::string namespaces;
    std::string first;
    bool apart = true;
  } kCases[] = {
      {"--pid --fork --mount-proc", ""},
      {"--pid --fork", ""},
      {"--ipc", ""},
      {"--pid --fork --mount-proc --mount --ipc", kOwnMemory},
      // Its processes are seen, and so their memory.
      {"--mount", kOwnMemory, false},
  };
  for (const auto& [namespaces, first, apart] : kCases) {
    const std::string rank = absl::StrCat("unshare ", namespaces, " sh -c '", first, "exec ",
                                          BenchCommand("all_reduce -b 8 -e 1M -f 64"), "'");
    const Ending ending = RunOnHosts({"1"}, absl::StrCat(Meet(2), Ranks("2", rank)));
    EXPECT_EQ(ending.exit_code, 0) << namespaces << "\n" << ending.err;
    EXPECT_THAT(ending.out, HasSubstr(apart ? ": tcp, memory not shared"
                                            : ": posix, memory shared by all ranks"))
        << namespaces;
    EXPECT_THAT(ending.out, HasSubstr("# Out of bounds values : 0 OK")) << namespaces;
  }
}

TEST_F(NetnsHostsTest, AKilledHostEndsTheOthersNamingOneOfItsRanks) {
  const std::string train = TrainCommand("--steps=100000000");
  Subprocess program(
      OnHosts({"2"}, absl::StrCat(Meet(4), "first=$((2 * NETNS_HOST))\n", "RZ_RANK=$((first + 1)) ",
                                  train, " & exec env RZ_RANK=$first ", train)));
  ASSERT_TRUE(program.WaitForOutput("step 5 ")) << program.ErrorOutput();
  const pid_t init = InitOf(program.ErrorOutput(), "host1");
  ASSERT_GT(init, 0) << program.ErrorOutput();
  ASSERT_EQ(kill(init, SIGKILL), 0);
  const Ending ending = EndOf(program);
  EXPECT_EQ(ending.exit_code, 137);
  EXPECT_THAT(ending.err, ContainsRegex(R"(\[host 0\] rz_train: rank 0: .*rank [23])"));
}

TEST_F(NetnsHostsTest, ComparesWithOthersBetweenHosts) {
  Subprocess program({ProgramPath("tools/bench/between_hosts"), "2", "--rounds", "1",
                      "--operations", "all_reduce", "--sizes", "64,4096", "--peers", "nobody"});
  const Ending ending = EndOf(program);
  EXPECT_EQ(ending.exit_code, 0) << ending.err;
  EXPECT_THAT(ending.out, AllOf(HasSubstr("# no nobody here"),
                                ContainsRegex("all_reduce out_of_place: us a call"),
                                ContainsRegex("\n +64 +[0-9]+\\.[0-9]+\n"),
                                ContainsRegex("\n +4096 +[0-9]+\\.[0-9]+\n")));
}

TEST_F(NetnsHostsTest, AComparisonThatFailsSaysWhatFailed) {
  const std::string script = ProgramPath("tools/bench/between_hosts");
  Subprocess failing({script, "2", "--rounds", "1", "--operations", "all_reduce", "--sizes",
                      "99999999999999", "--peers", "nobody"});
  const Ending ending = EndOf(failing);
  EXPECT_NE(ending.exit_code, 0);
  EXPECT_THAT(ending.out, HasSubstr("# all_reduce by ringzero failed:"));

  Subprocess unknown({script, "2", "--operations", "allsum"});
  const Ending refused = EndOf(unknown);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--operations allsum: expected some of"));

  Subprocess sizes({script, "2", "--sizes", "1M"});
  EXPECT_THAT(EndOf(sizes).err, HasSubstr("--sizes 1M: expected bytes between commas"));
}

// Such as the bridge of a container runtime, which has the same address on every host.
TEST_F(NetnsHostsTest, ADeviceThatOthersCannotReachIsLeftOutByName) {
  constexpr char kBridge[] =
      "ip link add docker0 type veth peer name container\n"
      "ip address add 172.17.0.1/16 dev docker0\n"
      "ip link set docker0 up; ip link set container up\n";
  const std::string train = TrainCommand("--steps=12");
  const Ending lost = RunOnHosts({"2"}, absl::StrCat(kBridge, Meet(2), train));
  if (lost.exit_code != 0) {
    EXPECT_THAT(lost.err, AllOf(ContainsRegex("rank [01] cannot be reached from rank [01]"),
                                HasSubstr("UCX_NET_DEVICES")));
  }
  const Ending named =
      RunOnHosts({"2"}, absl::StrCat(kBridge, Meet(2), "UCX_NET_DEVICES=eth0 ", train));
  EXPECT_EQ(named.exit_code, 0) << named.err;
}

}  // namespace
}  // namespace rz
