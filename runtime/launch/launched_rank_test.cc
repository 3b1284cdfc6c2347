#include "runtime/launch/launched_rank.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"
#include "runtime/launch/slurm_nodes.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<std::optional<LaunchedRank>> Find(const Variables& variables) {
  return FindLaunchedRank([&](const char* name) -> const char* {
    const auto entry = variables.find(name);
    return entry == variables.end() ? nullptr : entry->second.c_str();
  });
}

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables OpenMpi(const std::string& rank, const std::string& size, const std::string& local) {
  return {{"OMPI_COMM_WORLD_RANK", rank},
          {"OMPI_COMM_WORLD_SIZE", size},
          {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", local},
          {"PMIX_NAMESPACE", "1468334081"}};
}

Variables Mpich(const std::string& rank, const std::string& size, const std::string& local) {
  return {{"PMI_RANK", rank},
          {"PMI_SIZE", size},
          {"MPI_LOCALRANKID", rank},
          {"MPI_LOCALNRANKS", local}};
}

Variables Slurm(const std::string& rank, const std::string& size, const std::string& nodes) {
  return {{"SLURM_STEP_ID", "3"},
          {"SLURM_JOB_ID", "71"},
          {"SLURM_PROCID", rank},
          {"SLURM_STEP_NUM_TASKS", size},
          {"SLURM_LOCALID", "0"},
          {"SLURM_STEP_NUM_NODES", nodes},
          {"SLURM_STEP_NODELIST", "node[03-05,9]"}};
}

Variables Torchrun(const std::string& rank, const std::string& size, const std::string& local) {
  return {{"RANK", rank},
          {"WORLD_SIZE", size},
          {"LOCAL_RANK", rank},
          {"LOCAL_WORLD_SIZE", local},
          {"MASTER_ADDR", "vm.example"},
          {"MASTER_PORT", "29500"}};
}

struct Case {
  const char* name;
  Variables variables;
  const char* launcher;
  int rank;
  int world_size;
  const char* meeting;  // "" of a world of one
};

// "socket RANK_VARIABLE RUN", or "ADDRESS LISTEN JOB"; what it needs otherwise.
std::string Shown(const LaunchedRank& rank) {
  if (!rank.meeting.ok()) return std::string(rank.meeting.status().message());
  const Meeting& meeting = *rank.meeting;
  if (meeting.address.empty()) {
    return absl::StrCat("socket ", meeting.rank_variable, " ", meeting.run);
  }
  return absl::StrCat(meeting.address, " ", meeting.listen, " ", meeting.job,
                      meeting.insecure ? " insecure" : "");
}

TEST(LaunchedRankTest, EveryLauncherIsRead) {
  const Variables token = {{"RZ_TOKEN_FILE", "/home/token"}};
  const Case kCases[] = {
      {"Open MPI", OpenMpi("2", "4", "4"), "Open MPI", 2, 4,
       "socket OMPI_COMM_WORLD_RANK 1468334081"},
      {"MPICH", Mpich("0", "3", "3"), "PMI", 0, 3, "socket PMI_RANK "},
      {"Slurm", Slurm("1", "2", "1"), "Slurm", 1, 2, "socket SLURM_PROCID 71.3"},
      {"Slurm over nodes", With(Slurm("1", "2", "2"), token), "Slurm", 1, 2,
       "node03:24390 [::]:24390 slurm-71.3 insecure"},
      {"torchrun", Torchrun("1", "2", "2"), "torchrun", 1, 2, "127.0.0.1:29501  "},
      {"torchrun's, by hand",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1"}},
       "torchrun",
       0,
       2,
       "127.0.0.1:2  "},
      // The nearest to the process counts.
      {"mpirun within a step", With(Slurm("0", "1", "1"), OpenMpi("1", "2", "2")), "Open MPI", 1, 2,
       "socket OMPI_COMM_WORLD_RANK 1468334081"},
      {"MPICH within a step", With(Slurm("0", "2", "2"), Mpich("3", "4", "4")), "PMI", 3, 4,
       "socket PMI_RANK "},
      {"srun --mpi=pmi2", With(Slurm("1", "2", "1"), {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}),
       "Slurm", 1, 2, "socket SLURM_PROCID 71.3"},
      {"torchrun within a step",
       With(With(Slurm("0", "1", "1"), Torchrun("1", "2", "2")), {{"TORCHELASTIC_RUN_ID", "r"}}),
       "torchrun", 1, 2, "127.0.0.1:29501  "},
      {"a step whose script sets torchrun's", With(Slurm("1", "2", "1"), Torchrun("0", "1", "1")),
       "Slurm", 1, 2, "socket SLURM_PROCID 71.3"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    ASSERT_OK_AND_ASSIGN(const std::optional<LaunchedRank> found, Find(c.variables));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->launcher, c.launcher);
    EXPECT_EQ(found->rank, c.rank);
    EXPECT_EQ(found->world_size, c.world_size);
    EXPECT_EQ(Shown(*found), c.meeting);
  }
}

TEST(LaunchedRankTest, NobodyStartedThis) {
  // A batch script is no step; MASTER_ADDR alone is nobody's; empty is not set.
  const Variables kNone[] = {
      {},
      {{"SLURM_JOB_ID", "71"},
       {"SLURM_PROCID", "0"},
       {"SLURM_NTASKS", "4"},
       {"SLURM_LOCALID", "0"}},
      {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}, {"LOCAL_RANK", "0"}},
      {{"RANK", ""}, {"WORLD_SIZE", ""}, {"OMPI_COMM_WORLD_SIZE", ""}, {"SLURM_STEP_ID", ""}},
  };
  for (const Variables& variables : kNone) {
    ASSERT_OK_AND_ASSIGN(const std::optional<LaunchedRank> found, Find(variables));
    EXPECT_FALSE(found.has_value()) << ::testing::PrintToString(variables);
  }
}

TEST(LaunchedRankTest, LocalRanksAreRead) {
  for (const Variables& variables :
       {OpenMpi("1", "2", "2"), Mpich("1", "2", "2"), Torchrun("1", "2", "2"),
        With(Slurm("3", "4", "1"), {{"SLURM_LOCALID", "1"}})}) {
    ASSERT_OK_AND_ASSIGN(const std::optional<LaunchedRank> found, Find(variables));
    EXPECT_EQ(found->local_rank, 1);
  }
}

TEST(LaunchedRankTest, AWorldOfOneAsksForNothingMore) {
  for (const Variables& variables :
       {Variables{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
        Variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}},
        Variables{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
        Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}}) {
    ASSERT_OK_AND_ASSIGN(const std::optional<LaunchedRank> found, Find(variables));
    EXPECT_EQ(found->world_size, 1);
    EXPECT_FALSE(found->meeting.ok());
  }
}

TEST(LaunchedRankTest, WhoCannotMeetAloneSaysWhyAndWhatToDo) {
  struct {
    Variables variables;
    const char* why;
  } const kCases[] = {
      {OpenMpi("1", "4", "2"),
       "Open MPI has ranks on several hosts (OMPI_COMM_WORLD_LOCAL_SIZE=2, "
       "OMPI_COMM_WORLD_SIZE=4)"},
      {Mpich("1", "4", "2"), "PMI has ranks on several hosts (MPI_LOCALNRANKS=2, PMI_SIZE=4)"},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}},
       "PMI does not say which ranks (MPI_LOCALNRANKS is "
       "not set, PMI_SIZE=4)"},
      {Slurm("1", "4", "2"),
       "several nodes (SLURM_STEP_NODELIST=node[03-05,9]): set RZ_TOKEN_FILE"},
      {Torchrun("1", "4", "2"), "torchrun has ranks on several hosts (MASTER_ADDR=vm.example"},
  };
  for (const auto& c : kCases) {
    ASSERT_OK_AND_ASSIGN(const std::optional<LaunchedRank> found, Find(c.variables));
    EXPECT_THAT(found->meeting.status(),
                StatusIs(Code::kInvalidArgument,
                         AllOf(HasSubstr(c.why), HasSubstr("rz_rendezvous --listen"),
                               HasSubstr("set RZ_RENDEZVOUS=HOST:PORT"))));
  }
}

TEST(LaunchedRankTest, HalfAndSenselessValuesAreNamed) {
  struct {
    Variables variables;
    const char* message;
  } const kCases[] = {
      {{{"OMPI_COMM_WORLD_SIZE", "2"}},
       "OMPI_COMM_WORLD_SIZE=2 but OMPI_COMM_WORLD_RANK is not set"},
      {{{"OMPI_COMM_WORLD_RANK", "1"}},
       "OMPI_COMM_WORLD_RANK=1 but OMPI_COMM_WORLD_SIZE is not set"},
      {OpenMpi("4", "4", "4"),
       "OMPI_COMM_WORLD_RANK=4 is outside OMPI_COMM_WORLD_SIZE=4: expected 0 to 3"},
      {OpenMpi("1", "2", "3"), "OMPI_COMM_WORLD_LOCAL_SIZE=3 is not a whole number within 1 to 2"},
      {With(OpenMpi("1", "4", "2"), {{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}),
       "OMPI_COMM_WORLD_LOCAL_RANK=2 is outside OMPI_COMM_WORLD_LOCAL_SIZE=2"},
      {Mpich("one", "2", "2"), "PMI_RANK=one is not a whole number within 0 to 16383"},
      {Mpich("0", "0", "1"), "PMI_SIZE=0 is not a whole number within 1 to 16384"},
      {Mpich("0", "16385", "1"), "PMI_SIZE=16385 is not a whole number"},
      {{{"PMI_PORT", "h:1"}, {"PMI_ID", "0"}}, "leave -pmi-port out"},
      {{{"SLURM_STEP_ID", "0"}}, "SLURM_STEP_NUM_TASKS is not set"},
      {Slurm("2", "2", "1"), "SLURM_PROCID=2 is outside SLURM_STEP_NUM_TASKS=2"},
      {Slurm("1", "2", "x"), "SLURM_STEP_NUM_NODES=x is not"},
      {Slurm("1", "2", ""), "SLURM_STEP_ID=3 but SLURM_STEP_NUM_NODES is not set"},
      {{{"RANK", "0"}}, "RANK=0 but WORLD_SIZE is not set"},
      {{{"RANK", "first"}, {"WORLD_SIZE", "2"}}, "RANK=first is not a whole number"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "WORLD_SIZE=2 but MASTER_ADDR is not set"},
      {With(Torchrun("0", "2", "2"), {{"MASTER_PORT", ""}}), "MASTER_PORT is not set"},
      // The next one is needed.
      {With(Torchrun("0", "2", "2"), {{"MASTER_PORT", "65535"}}), "MASTER_PORT=65535 is not"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Find(c.variables), StatusIs(Code::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(LaunchedRankTest, ListsOfNodesThatAreNoneAreNamed) {
  for (const auto& [list, message] :
       {std::pair("", "SLURM_STEP_NUM_NODES=2 but SLURM_STEP_NODELIST is not set"),
        std::pair("n[1", "SLURM_STEP_NODELIST: 'n[1' is no list of nodes")}) {
    ASSERT_OK_AND_ASSIGN(const std::optional<LaunchedRank> found,
                         Find(With(Slurm("1", "2", "2"), {{"SLURM_STEP_NODELIST", list}})));
    EXPECT_THAT(found->meeting.status(), StatusIs(Code::kInvalidArgument, HasSubstr(message)));
  }
}

// Every rank must find the same port, and steps should differ.
TEST(LaunchedRankTest, TheStepAloneGivesThePort) {
  const auto address = [](const Variables& step) {
    const auto found = Find(With(step, {{"RZ_TOKEN_FILE", "/t"}}));
    return found.ok() && (*found)->meeting.ok() ? (*found)->meeting->address : "none";
  };
  const Variables step = Slurm("0", "2", "2");
  EXPECT_THAT(address(step), HasSubstr("node03:2"));
  EXPECT_EQ(address(step), address(Slurm("1", "2", "2")));
  EXPECT_NE(address(step), address(With(step, {{"SLURM_STEP_ID", "4"}})));
}

TEST(SlurmNodesTest, TheFirstNodeIsFound) {
  const std::pair<const char*, const char*> kLists[] = {
      {"n1", "n1"},
      {"login,node[1-4]", "login"},
      {"node[3-5,9]", "node3"},
      {"node[003,009-012],login", "node003"},
      {"rack[1-2]node[05-06]-ib.example,x", "rack1node05-ib.example"},
  };
  for (const auto& [list, first] : kLists) {
    ASSERT_OK_AND_ASSIGN(const std::string found, FirstSlurmNode(list));
    EXPECT_EQ(found, first);
  }
  for (const char* wrong : {"", ",n1", "n[1", "n[]", "n[-3]", "n[a-b]", "n1 n2", "n]1"}) {
    EXPECT_THAT(FirstSlurmNode(wrong), StatusIs(Code::kInvalidArgument, HasSubstr(wrong)));
  }
}

}  // namespace
}  // namespace rz
