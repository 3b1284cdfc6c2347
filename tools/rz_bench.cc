// rz_bench: measures and checks the collectives, as one rank of a job, alone, or with ranks that it
// starts itself.
//
// 1. Flags are read and checked before any rank is started or spoken to.
// 2. With -np and outside a job this process becomes the launcher of that many copies of itself.
// 3. A rank joins, binds itself, and runs the sweep; rank 0 alone prints and writes files.
// 4. Wrong results end in exit code 1 on every rank, other failures in one line on standard error.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runtime/base/simd_level.h"
#include "runtime/job.h"
#include "tools/bench/against/against_main.h"
#include "tools/bench/bench_config.h"
#include "tools/bench/bench_rank.h"
#include "tools/bench/foreign_flags.h"
#include "tools/bench/result_files.h"
#include "tools/exit_code.h"
#include "tools/flag_set.h"
#include "tools/launch/launcher.h"
#include "tools/rank_environment.h"

namespace rz {
namespace {

std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

int Fail(const absl::Status& status) {
  const std::string line = absl::StrCat("rz_bench: ", status.message(), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  return kExitFailure;
}

std::string EnvironmentText(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// This program's file.
std::string Self(char** argv) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? argv[0] : path.string();
}

// This program again, as `ranks` ranks.
int LaunchRanks(int64_t ranks, int argc, char** argv) {
  LaunchOptions options;
  options.program = "rz_bench";
  options.command = {Self(argv)};
  options.command.insert(options.command.end(), argv + 1, argv + argc);
  options.ranks = static_cast<int>(ranks);
  options.prefix_output = false;
  return Launch(options);
}

int Main(int argc, char** argv) {
  FlagSet flags("rz_bench", "measures and checks collectives, as nccl-tests does");
  BenchFlags bench_flags;
  ForeignFlags foreign_flags;
  flags.Positional("OPERATION...|all");
  bench_flags.Declare(&flags);
  foreign_flags.Declare(&flags);
  flags.Description(
      "OPERATION: all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all,\n"
      "gather, scatter, sendrecv, barrier, reduce_scatter_v, all_gather_v, all_to_all_v. Starts\n"
      "its own ranks (-np), or joins the job that it is started in. Every result is compared\n"
      "bit by bit with what it must be.");
  DescribeRankEnvironment(&flags);
  flags.ExitCodes(
      "0 ok, 1 wrong results or another failure (standard error says which), 2 wrong usage");
  flags.Example("rz_bench all_reduce -np 2 -b 8 -e 256M -f 2");
  flags.Example("rz_bench all -np 4 -b 0 -e 64K -f 2 -d all -o all -c 3");
  flags.Example("rz_bench reduce_scatter -np 2 -b 1M -e 64M -f 4 --percentiles --json out.json");
  flags.Example("rz_bench all_reduce -np 2 -b 8 -e 256M -f 8 --against openmpi,mpich,gloo");
  flags.Example("rz_run -n 4 -- rz_bench all_gather -b 1M -e 1M");
  flags.ParseOrExit(argc, argv);
  if (const absl::Status foreign = foreign_flags.Check(); !foreign.ok()) {
    flags.UsageError(MessageOf(foreign));
  }
  absl::StatusOr<BenchConfig> config = bench_flags.Read(flags, EnvironmentText("RZ_ALGO"));
  if (!config.ok()) flags.UsageError(MessageOf(config.status()));
  config->arguments.assign(argv + 1, argv + argc);
  const absl::StatusOr<SimdLevel> level = ChooseSimdLevel();
  if (!level.ok()) return Fail(level.status());
  const absl::StatusOr<JobEnvironment> environment = JobEnvironment::FromProcess();
  if (!environment.ok()) return Fail(environment.status());
  // Not after the work; by whom the files are written, or who starts that one.
  if (!environment->rank.has_value() || *environment->rank == Rank(0)) {
    for (const std::string& path : {config->json_path, config->csv_path, config->plot_path}) {
      if (path.empty()) continue;
      if (const absl::Status status = CheckCreatable(path); !status.ok()) return Fail(status);
    }
  }
  const bool in_job = environment->InJob();
  if (!config->against.empty()) {
    if (in_job) flags.UsageError("--against starts its own ranks: not within a job");
    const absl::Status compared = CompareWithPeers(*config, Self(argv));
    return compared.ok() ? kExitOk : Fail(compared);
  }
  if (!in_job && config->ranks > 1) return LaunchRanks(config->ranks, argc, argv);
  if (in_job && config->ranks != 0 && config->ranks != environment->world_size) {
    flags.UsageError(absl::StrCat("-np ", config->ranks, " within a job of ",
                                  environment->world_size, " ranks: leave it out"));
  }
  return RunRank(*config, *environment);
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) { return rz::Main(argc, argv); }
