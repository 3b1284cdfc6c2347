#include "runtime/job_environment.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

absl::StatusOr<JobEnvironment> Parse(const std::map<std::string, std::string>& variables) {
  return JobEnvironment::Parse([&](const char* name) -> const char* {
    const auto entry = variables.find(name);
    return entry == variables.end() ? nullptr : entry->second.c_str();
  });
}

TEST(JobEnvironmentTest, NothingSetIsAWorldOfOne) {
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment, Parse({}));
  EXPECT_EQ(environment.world_size, 1);
  EXPECT_EQ(environment.rendezvous, "");
  EXPECT_FALSE(environment.rank.has_value());
  EXPECT_OK(Parse({{"RZ_WORLD_SIZE", "1"}}));
  EXPECT_OK(Parse({{"RZ_WORLD_SIZE", ""}, {"RZ_RENDEZVOUS", ""}}));
}

TEST(JobEnvironmentTest, HandStartedWorkersNeedTwoVariables) {
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment,
                       Parse({{"RZ_RENDEZVOUS", "h:1"}, {"RZ_WORLD_SIZE", "4"}}));
  EXPECT_EQ(environment.rendezvous, "h:1");
  EXPECT_EQ(environment.world_size, 4);
  EXPECT_EQ(environment.job, "default");
}

TEST(JobEnvironmentTest, EverythingIsRead) {
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment,
                       Parse({{"RZ_RENDEZVOUS", "h:1"},
                              {"RZ_JOB", "j"},
                              {"RZ_WORLD_SIZE", "16384"},
                              {"RZ_RANK", "16383"},
                              {"RZ_LOCAL_RANK", "3"},
                              {"RZ_TOKEN_FILE", "/t"},
                              {"RZ_LAUNCH", "18446744073709551615"},
                              {"RZ_JOIN_TIMEOUT", "1.5m"},
                              {"RZ_CONNECT_TIMEOUT", "7"}}));
  EXPECT_EQ(environment.job, "j");
  EXPECT_EQ(environment.rank, Rank(16383));
  EXPECT_EQ(environment.local_rank, 3);
  EXPECT_EQ(environment.token_file, "/t");
  EXPECT_EQ(environment.launch, ~uint64_t{0});
  EXPECT_EQ(environment.join_timeout, absl::Seconds(90));
  EXPECT_EQ(environment.connect_timeout, absl::Seconds(7));
}

TEST(JobEnvironmentTest, MalformedNumbersAreNamed) {
  for (const char* wrong : {"0", "-1", "16385", "four", "4x", "1e3", "99999999999999999999"}) {
    EXPECT_THAT(
        Parse({{"RZ_RENDEZVOUS", "h:1"}, {"RZ_WORLD_SIZE", wrong}}),
        StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("RZ_WORLD_SIZE="), HasSubstr(wrong))));
  }
  for (const char* wrong : {"-1", "4", "x"}) {
    EXPECT_THAT(Parse({{"RZ_RENDEZVOUS", "h:1"}, {"RZ_WORLD_SIZE", "4"}, {"RZ_RANK", wrong}}),
                StatusIs(Code::kInvalidArgument, HasSubstr("RZ_RANK=")));
  }
  EXPECT_THAT(Parse({{"RZ_LOCAL_RANK", "-1"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("RZ_LOCAL_RANK")));
  EXPECT_THAT(Parse({{"RZ_LAUNCH", "-1"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("RZ_LAUNCH=-1")));
  for (const char* name : {"RZ_JOIN_TIMEOUT", "RZ_CONNECT_TIMEOUT"}) {
    EXPECT_OK(Parse({{name, "1ms"}}));
    EXPECT_OK(Parse({{name, "1h"}}));
    for (const char* wrong : {"0", "-1", "0.9ms", "3601", "soon", "inf"}) {
      EXPECT_THAT(Parse({{name, wrong}}),
                  StatusIs(Code::kInvalidArgument,
                           AllOf(HasSubstr(name), HasSubstr(wrong), HasSubstr("1ms to 1h"))));
    }
  }
}

TEST(JobEnvironmentTest, OneVariableWithoutTheOtherIsExplained) {
  EXPECT_THAT(Parse({{"RZ_RENDEZVOUS", "h:1"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("RZ_WORLD_SIZE is not")));
  EXPECT_THAT(Parse({{"RZ_WORLD_SIZE", "2"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("RZ_RENDEZVOUS is not")));
}

const std::map<std::string, std::string> kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                    {"OMPI_COMM_WORLD_SIZE", "3"},
                                                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};

std::map<std::string, std::string> Mpirun(const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> variables = kMpirun;
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST(JobEnvironmentTest, ALauncherSaysWhoThisIs) {
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment, Parse(kMpirun));
  EXPECT_EQ(environment.rank, Rank(1));
  EXPECT_EQ(environment.world_size, 3);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_TRUE(environment.meeting.has_value());
  EXPECT_TRUE(environment.InJob());
  EXPECT_EQ(environment.job, "default");
}

TEST(JobEnvironmentTest, ANamedRendezvousIsJoinedAsTheLaunchersRank) {
  // Over several hosts Open MPI's ranks could not meet by themselves.
  const std::map<std::string, std::string> hosts = {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_THAT(Parse(Mpirun(hosts)),
              StatusIs(Code::kInvalidArgument, HasSubstr("set RZ_RENDEZVOUS=")));
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment,
                       Parse(Mpirun({{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                     {"RZ_RENDEZVOUS", "h:1"},
                                     {"RZ_LOCAL_RANK", "7"},
                                     {"RZ_JOB", "j"}})));
  EXPECT_EQ(environment.rendezvous, "h:1");
  EXPECT_FALSE(environment.meeting.has_value());
  EXPECT_EQ(environment.rank, Rank(1));
  EXPECT_EQ(environment.local_rank, 7);
  EXPECT_EQ(environment.job, "j");
}

// What rz_run sets beats what the mpirun or srun has set that rz_run runs under.
TEST(JobEnvironmentTest, AWorldSizeOfItsOwnBeatsTheLauncher) {
  ASSERT_OK_AND_ASSIGN(
      const JobEnvironment started,
      Parse(Mpirun({{"RZ_RENDEZVOUS", "h:1"}, {"RZ_WORLD_SIZE", "8"}, {"RZ_RANK", "5"}})));
  EXPECT_EQ(started.rank, Rank(5));
  EXPECT_EQ(started.world_size, 8);
  ASSERT_OK_AND_ASSIGN(const JobEnvironment alone,
                       Parse(Mpirun({{"RZ_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "x"}})));
  EXPECT_FALSE(alone.InJob());
  EXPECT_THAT(Parse(Mpirun({{"RZ_RANK", "2"}})),
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr("RZ_RANK=2"), HasSubstr("Open MPI says rank 1 of 3"))));
}

TEST(JobEnvironmentTest, ALaunchersWorldOfOneNeedsNoRendezvous) {
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment,
                       Parse({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
  EXPECT_FALSE(environment.InJob());
  EXPECT_EQ(environment.world_size, 1);
}

TEST(JobEnvironmentTest, AStepOverNodesHasAJobOfItsOwn) {
  std::map<std::string, std::string> step = {{"SLURM_STEP_ID", "2"},
                                             {"SLURM_JOB_ID", "71"},
                                             {"SLURM_PROCID", "0"},
                                             {"SLURM_STEP_NUM_TASKS", "4"},
                                             {"SLURM_LOCALID", "0"},
                                             {"SLURM_STEP_NUM_NODES", "2"},
                                             {"SLURM_STEP_NODELIST", "n[1-2]"},
                                             {"RZ_TOKEN_FILE", "/token"}};
  ASSERT_OK_AND_ASSIGN(const JobEnvironment environment, Parse(step));
  EXPECT_EQ(environment.job, "slurm-71.2");
  step["RZ_JOB"] = "mine";
  ASSERT_OK_AND_ASSIGN(const JobEnvironment named, Parse(step));
  EXPECT_EQ(named.job, "mine");
}

}  // namespace
}  // namespace rz
