// rz_train: trains a model with data parallelism or ZeRO, as one rank of a job or alone.
//
// 1. Flags, data and environment are read and checked before any other rank is spoken to.
// 2. The rank joins its job and trains; rank 0 alone prints.
// 3. Whatever fails ends in one line on standard error and exit code 1 (2 for a wrong command
// line):
//    where another rank was the cause, the rendezvous's verdict names it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/communicator.h"
#include "optimizer/config/schema_reader.h"
#include "runtime/base/clock.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_macros.h"
#include "runtime/job.h"
#include "runtime/transport/ucx/ucx_transport.h"
#include "tools/exit_code.h"
#include "tools/flag_set.h"
#include "tools/rank_environment.h"
#include "tools/train/comparison.h"
#include "tools/train/progress.h"
#include "tools/train/run_report.h"
#include "tools/train/train_config.h"
#include "tools/train/training_run.h"

namespace rz {
namespace {

std::string EnvironmentText(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// On a terminal; and among the ranks of rz_run, which shows redrawn lines on a terminal and
// otherwise passes on only the last state of each.
bool MayRedraw(int world_size) {
  return isatty(STDOUT_FILENO) == 1 ||
         (world_size > 1 && !EnvironmentText("RZ_LOCAL_RANK").empty());
}

UcxOptions TransportOptions(const TrainConfig& config) {
  UcxOptions options;
  if (config.transport == "tcp") options.transports = UcxOptions::Transports::kTcp;
  if (config.transport == "shm") options.transports = UcxOptions::Transports::kSharedMemory;
  return options;
}

// "rank 1: step 37: ", as far as known.
std::string Where(std::optional<Rank> rank, int64_t step) {
  return absl::StrCat(rank ? absl::StrCat("rank ", rank->value(), ": ") : "",
                      step > 0 ? absl::StrCat("step ", step, ": ") : "");
}

int Fail(const std::string& where, const absl::Status& status) {
  const std::string line = absl::StrCat("rz_train: ", where, status.message(), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  return kExitFailure;
}

// `failed_step` is set where a step was under way when it failed.
absl::Status TrainAsRank(const TrainConfig& config, const Dataset& dataset, Job* job,
                         int64_t* failed_step) {
  CommunicatorOptions options;
  options.numeric_mode = config.numeric_mode;
  options.algorithms = config.algorithms;
  if (config.transport == "tcp") options.link = LinkKind::kNetwork;
  RZ_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                      Communicator::Create(job->transport(), options));
  RZ_RETURN_IF_ERROR(communicator->ShareMemory());
  const bool first = job->rank() == Rank(0);
  std::optional<ReferenceRun> reference;
  if (first && !config.reference_path.empty()) {
    RZ_ASSIGN_OR_RETURN(reference, ReadReference(config.reference_path));
    RZ_RETURN_IF_ERROR(CheckReference(*reference, config, job->world_size()));
  }
  Progress progress(first ? stdout : nullptr, MayRedraw(job->world_size()), Clock::Steady());
  if (config.compare) {
    return CompareStages(config, dataset, communicator.get(), job->transport()->Description(),
                         &progress, Clock::Steady(), failed_step);
  }
  TrainingRun run(config, &dataset, communicator.get(), job->transport()->Description(),
                  std::move(reference), &progress, Clock::Steady());
  if (absl::Status status = run.Run(); !status.ok()) {
    *failed_step = run.step();
    return status;
  }
  if (first && !config.report_path.empty()) return WriteReport(run.report(), config.report_path);
  return absl::OkStatus();
}

int JoinAndTrain(const TrainConfig& config, const Dataset& dataset,
                 const JobEnvironment& environment) {
  absl::StatusOr<std::unique_ptr<Transport>> transport =
      CreateUcxTransport(TransportOptions(config));
  if (!transport.ok()) return Fail(Where(environment.rank, 0), transport.status());
  JobOptions options;
  options.config_hash = config.AgreementHash(dataset.agreement);
  absl::StatusOr<std::unique_ptr<Job>> job = Job::Join(environment, *std::move(transport), options);
  if (!job.ok()) return Fail(Where(environment.rank, 0), job.status());

  int64_t step = 0;
  const absl::Status status = TrainAsRank(config, dataset, job->get(), &step);
  const Rank rank = (*job)->rank();
  if (!status.ok()) return Fail(Where(rank, step), (*job)->FirstCause(status));
  if (const absl::Status left = (*job)->Leave(); !left.ok()) return Fail(Where(rank, 0), left);
  return kExitOk;
}

int Main(int argc, char** argv) {
  FlagSet flags(
      "rz_train",
      "trains an MLP or a small transformer with data parallelism or ZeRO 1, 2 or 3, alone or in a "
      "job");
  TrainFlags train_flags;
  train_flags.Declare(&flags);
  absl::Duration join_timeout = JobEnvironment().join_timeout;
  absl::Duration connect_timeout = JobEnvironment().connect_timeout;
  const DurationRange timeouts = {JobEnvironment::kShortestTimeout,
                                  JobEnvironment::kLongestTimeout};
  flags.Duration("join-timeout", &join_timeout, timeouts,
                 "how long the other ranks are waited for; beats RZ_JOIN_TIMEOUT");
  flags.Duration("connect-timeout", &connect_timeout, timeouts,
                 "how long the rendezvous is tried; beats RZ_CONNECT_TIMEOUT");
  flags.Description(
      "Every rank of a job has the same flags: under rz_run, mpirun, srun or torchrun, or started\n"
      "by hand with RZ_RENDEZVOUS and RZ_WORLD_SIZE. Rank 0 prints a line a step, and at the end\n"
      "where time went and what memory is held for, by formula and as measured.");
  DescribeRankEnvironment(&flags);
  flags.Example("rz_train --dataset synthetic --steps 20");
  flags.Example("rz_run -n 4 -- rz_train --stage ddp --steps 20 --report ddp.json");
  flags.Example("rz_run -n 4 -- rz_train --stage 1 --epochs 3 --reference ddp.json");
  flags.Example("mpirun -n 4 rz_train --stage 1 --steps 20   (or srun, torchrun --no_python)");
  flags.Example("rz_run -n 4 -- rz_train --compare --steps 50 --transport tcp");
  flags.Example("rz_run -n 4 -- rz_train --stage 3 --accumulate 4 --accumulation shard");
  flags.Example("rz_run -n 2 -- rz_train --dataset bible-kjv --steps 500 --sample 1000");
  flags.Example("rz_train --config deepspeed.json --lr 0.001 --print-config");
  flags.ParseOrExit(argc, argv);
  absl::StatusOr<JobEnvironment> environment = JobEnvironment::FromProcess();
  if (!environment.ok()) return Fail("", environment.status());
  const absl::StatusOr<TrainConfig> config =
      train_flags.Read(flags, EnvironmentText("RZ_ALGO"), environment->world_size);
  if (!config.ok()) {
    const absl::string_view message = config.status().message();
    flags.UsageError({message.data(), message.size()});
  }
  if (config->print_config) {
    const std::string text = PrintSettings(config->settings);
    std::fwrite(text.data(), 1, text.size(), stdout);
    flags.ExitWith(kExitOk);
  }
  const absl::StatusOr<SimdLevel> level = ChooseSimdLevel();
  if (!level.ok()) return Fail("", level.status());
  if (flags.WasSet("join-timeout")) environment->join_timeout = join_timeout;
  if (flags.WasSet("connect-timeout")) environment->connect_timeout = connect_timeout;
  // Not after an hour of training.
  absl::Status writable = CheckWritable(config->report_path, "report");
  writable.Update(CheckWritable(config->trace_path, "trace"));
  if (!writable.ok()) return Fail(Where(environment->rank, 0), writable);
  const absl::StatusOr<Dataset> dataset = OpenDataset(*config);
  if (!dataset.ok()) return Fail(Where(environment->rank, 0), dataset.status());
  return JoinAndTrain(*config, *dataset, *environment);
}

}  // namespace
}  // namespace rz

int main(int argc, char** argv) { return rz::Main(argc, argv); }
