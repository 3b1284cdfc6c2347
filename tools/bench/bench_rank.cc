// 1. Join the job, over a transport of the kind asked for.
// 2. Create the measured communicator and one beside it for what the ranks tell each other.
// 3. Bind the thread, so that memory is first touched where it is used.
// 4. Run the sweep, or explain it.
// 5. Rank 0 writes the files; all leave.
#include "tools/bench/bench_rank.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "collectives/call.h"
#include "collectives/communicator.h"
#include "runtime/base/status_macros.h"
#include "runtime/memory/memory.h"
#include "runtime/transport/ucx/ucx_transport.h"
#include "tools/bench/call_memory.h"
#include "tools/bench/host.h"
#include "tools/bench/plot.h"
#include "tools/bench/rank_exchange.h"
#include "tools/bench/result_files.h"
#include "tools/bench/subject.h"
#include "tools/bench/sweep_run.h"
#include "tools/exit_code.h"

namespace rz {
namespace {

constexpr uint32_t kControlId = 255;

std::string Where(std::optional<Rank> rank) {
  return rank ? absl::StrCat("rank ", rank->value(), ": ") : "";
}

int Fail(const std::string& where, const absl::Status& status) {
  const std::string line = absl::StrCat("rz_bench: ", where, status.message(), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  return kExitFailure;
}

UcxOptions TransportOptions(const BenchConfig& config) {
  UcxOptions options;
  if (config.spins >= 0) options.spin_iterations = static_cast<int>(config.spins);
  if (config.transport == "tcp") options.transports = UcxOptions::Transports::kTcp;
  if (config.transport == "shm") options.transports = UcxOptions::Transports::kSharedMemory;
  return options;
}

CommunicatorOptions MeasuredOptions(const BenchConfig& config) {
  CommunicatorOptions options;
  options.numeric_mode = config.numeric_mode;
  options.algorithms = config.algorithms;
  options.operation_timeout = config.timeout;
  if (config.transport == "tcp") options.link = LinkKind::kNetwork;
  if (config.spins >= 0) options.shared_spins = static_cast<int>(config.spins);
  return options;
}

// Joined ranks and what they have beside the measured communicator.
struct Ranks {
  Communicator* communicator;
  RankExchange* exchange;
  Job* job;
};

// Binds this thread where it is to be bound; what the head of the table says of the rank.
absl::StatusOr<std::string> Settle(const BenchConfig& config, RankExchange& exchange) {
  RZ_ASSIGN_OR_RETURN(const std::vector<std::string> machines, exchange.GatherText(MachineId()));
  std::optional<int> processor;
  if (config.binding != Binding::kNone) {
    processor = ChooseProcessor(machines, exchange.rank(), AllowedProcessors(),
                                config.binding == Binding::kCore);
  }
  if (processor.has_value()) RZ_RETURN_IF_ERROR(BindThread(*processor));
  std::ifstream file("/proc/cpuinfo");
  const std::string cpuinfo((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  const std::string device =
      processor.has_value() ? absl::StrFormat("%2d [bound]", *processor) : "any [not bound]";
  return absl::StrFormat("#  Rank %2d Group %2d Pid %6d on %10s device cpu %s %s", exchange.rank(),
                         0, getpid(), HostName(), device, ProcessorName(cpuinfo));
}

int64_t LargestSize(const BenchConfig& config) {
  return *std::max_element(config.sizes.begin(), config.sizes.end());
}

std::string BuffersInWords(const BenchConfig& config, bool all_shared) {
  if (config.registration == Registration::kPlain) return "private";
  return all_shared ? "registered" : "registered, but private: the ranks cannot share them";
}

std::string SharingInWords(const Communicator& communicator) {
  if (communicator.shares_memory()) return "shared by all ranks";
  const int hosts = communicator.hosts();
  const bool by_some = hosts > 1 && hosts < communicator.world_size();
  return by_some ? absl::StrCat("shared within each of ", hosts, " hosts") : "not shared";
}

// The lines between a table's first and its columns.
std::vector<std::string> Preface(const BenchConfig& config, const Ranks& ranks,
                                 const std::vector<std::string>& rank_lines, bool all_shared) {
  const MeasurementPlan& plan = config.plan;
  const bool factor = config.sweep.step_factor > 1;
  const std::string step =
      factor ? absl::StrCat(config.sweep.step_factor) : absl::StrCat(config.sweep.step_bytes);
  std::vector<std::string> lines = {
      absl::StrCat("# nRanks ", ranks.exchange->world_size(), " minBytes ",
                   *std::min_element(config.sizes.begin(), config.sizes.end()), " maxBytes ",
                   LargestSize(config), " step: ", step, factor ? "(factor)" : "(bytes)",
                   " warmup iters: ", plan.warmup,
                   " iters: ", plan.iterations == 0 ? "auto" : absl::StrCat(plan.iterations),
                   " agg iters: ", config.aggregate, " validation: ", config.checks,
                   " graph: 0 unalign: ", config.unalign),
      absl::StrCat("# numeric ", std::string(NameOf(config.numeric_mode)), ", algorithms ",
                   config.algorithms.empty() ? "chosen for each size" : config.algorithms,
                   ", buffers ", BuffersInWords(config, all_shared),
                   plan.sampling == Sampling::kFresh ? ", inputs rewritten before each call" : ""),
      absl::StrCat("# transport ", ranks.job->transport()->Description(), ", memory ",
                   SharingInWords(*ranks.communicator)),
      "#", "# Using devices"};
  lines.insert(lines.end(), rank_lines.begin(), rank_lines.end());
  if (ranks.exchange->world_size() == 1) {
    lines.emplace_back("# One rank alone: nothing is exchanged. -np N starts N ranks.");
  }
  const std::string skipped = config.SkippedKinds();
  if (!skipped.empty()) {
    lines.push_back(absl::StrCat("# Without meaning, left out: ", skipped));
  }
  return lines;
}

void PrintLine(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

absl::Status Explain(const BenchConfig& config, const Communicator& communicator) {
  for (BenchOperation operation : config.operations) {
    const OperationTraits& traits = TraitsOf(operation);
    if (!traits.collective.has_value()) continue;
    for (ElementKind kind : config.KindsOf(operation)) {
      for (int64_t bytes : config.sizes) {
        const CallShape shape = ShapeOf({.operation = operation,
                                         .bytes = bytes,
                                         .element_size = static_cast<int64_t>(SizeOf(kind.dtype)),
                                         .world = communicator.world_size(),
                                         .rank = communicator.rank(),
                                         .pattern = config.counts});
        Call call;
        call.collective = *traits.collective;
        call.count = shape.count;
        call.dtype = kind.dtype;
        call.op = kind.op.value_or(ReduceOp::kSum);
        call.has_counts = traits.is_v;
        call.counts = shape.counts;
        call.recv_counts = shape.recv_counts;
        RZ_ASSIGN_OR_RETURN(const Explanation explanation, communicator.Explain(call));
        PrintLine(absl::StrCat("# ", std::string(traits.name), ", ", shape.size_bytes, " bytes"));
        PrintLine(explanation.text);
      }
    }
  }
  return absl::OkStatus();
}

// -M: the most any rank has held.
absl::Status PrintMemory(const Ranks& ranks, bool first) {
  const MemoryLedger& ledger = *MemoryLedger::Default();
  double bytes[] = {static_cast<double>(ledger.Peak(MemoryTag::kOther)),
                    static_cast<double>(ledger.Peak(MemoryTag::kScratch)),
                    static_cast<double>(ranks.communicator->shared_scratch_bytes())};
  RZ_RETURN_IF_ERROR(ranks.exchange->TakeLargest(absl::MakeSpan(bytes)));
  if (!first) return absl::OkStatus();
  PrintLine(absl::StrFormat(
      "# Memory of a rank, at most: buffers %.0f B, private scratch %.0f B, shared scratch %.0f B",
      bytes[0], bytes[1], bytes[2]));
  return absl::OkStatus();
}

// Of all calls, those that warm up and that are checked too.
absl::Status CountBetweenHosts(const Ranks& ranks, RunDescription& description) {
  if (ranks.communicator->hosts() < 2) return absl::OkStatus();
  RZ_ASSIGN_OR_RETURN(description.bytes_between_hosts,
                      ranks.exchange->Sum(ranks.communicator->wire_counters().between_hosts));
  if (ranks.exchange->rank() == 0) {
    PrintLine(absl::StrFormat("# Bytes that left a host : %d (all calls of all %d hosts)",
                              *description.bytes_between_hosts, ranks.communicator->hosts()));
  }
  return absl::OkStatus();
}

std::string TimeOfDay() {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::Now(), absl::LocalTimeZone());
}

RunDescription Describe(const BenchConfig& config, const Ranks& ranks) {
  RunDescription description;
  description.arguments = config.arguments;
  description.world = ranks.exchange->world_size();
  description.transport = ranks.job->transport()->Description();
  description.numeric = std::string(NameOf(config.numeric_mode));
  description.algorithm = config.algorithms;
  description.start_time = TimeOfDay();
  return description;
}

absl::Status WriteFiles(const BenchConfig& config, const RunDescription& description,
                        const std::vector<ResultRow>& rows) {
  const auto write = [](const std::string& path, const std::string& text) {
    RZ_RETURN_IF_ERROR(WriteFile(path, text));
    PrintLine(absl::StrCat("# Written: ", path));
    return absl::OkStatus();
  };
  if (!config.json_path.empty()) {
    RZ_RETURN_IF_ERROR(write(FreePath(config.json_path), ToJson(description, rows)));
  }
  if (!config.csv_path.empty()) RZ_RETURN_IF_ERROR(write(FreePath(config.csv_path), ToCsv(rows)));
  if (config.plot_path.empty()) return absl::OkStatus();
  return write(config.plot_path, RenderPlot(PageOf(description, rows)));
}

absl::StatusOr<int64_t> RunSweep(const BenchConfig& config, const Ranks& ranks, Subject* subject) {
  const bool first = ranks.exchange->rank() == 0;
  RunDescription description = Describe(config, ranks);
  RZ_ASSIGN_OR_RETURN(const std::string mine, Settle(config, *ranks.exchange));
  RZ_ASSIGN_OR_RETURN(description.ranks, ranks.exchange->GatherText(mine));
  RZ_ASSIGN_OR_RETURN(CallMemory memory,
                      CallMemory::Create(ranks.communicator, LargestSize(config), config.aggregate,
                                         config.unalign, config.registration));
  SweepRun run(&config, subject, ranks.exchange, &memory, [first](const std::string& line) {
    if (first) PrintLine(line);
  });
  if (first) {
    PrintLine(absl::StrCat("# rz_bench version ", std::string(kToolsVersion), " (ringzero)"));
  }
  RZ_ASSIGN_OR_RETURN(const int64_t private_ranks, ranks.exchange->Sum(memory.is_shared() ? 0 : 1));
  RZ_RETURN_IF_ERROR(run.Run(Preface(config, ranks, description.ranks, private_ranks == 0)));
  description.end_time = TimeOfDay();
  RZ_RETURN_IF_ERROR(CountBetweenHosts(ranks, description));
  if (config.report_memory) RZ_RETURN_IF_ERROR(PrintMemory(ranks, first));
  if (first) RZ_RETURN_IF_ERROR(WriteFiles(config, description, run.rows()));
  return run.wrong();
}

// The number of wrong elements over all ranks.
absl::StatusOr<int64_t> BenchAsRank(const BenchConfig& config, Job* job,
                                    const MakeSubject& make_subject) {
  if (config.root >= job->world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("-r ", config.root, " is not a rank of 0 to ", job->world_size() - 1));
  }
  RZ_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator,
                      Communicator::Create(job->transport(), MeasuredOptions(config)));
  CommunicatorOptions control_options;
  control_options.id = kControlId;
  RZ_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> control,
                      Communicator::Create(job->transport(), control_options));
  if (config.share_memory) {
    for (Communicator* one : {communicator.get(), control.get()}) {
      RZ_RETURN_IF_ERROR(one->ShareMemory());
    }
  }
  RankExchange exchange(control.get());
  if (config.explain) {
    if (job->rank() == Rank(0)) RZ_RETURN_IF_ERROR(Explain(config, *communicator));
    RZ_RETURN_IF_ERROR(exchange.Barrier());
    return 0;
  }
  const std::unique_ptr<Subject> subject = make_subject(communicator.get());
  return RunSweep(config, {communicator.get(), &exchange, job}, subject.get());
}

}  // namespace

std::unique_ptr<Subject> MeasureTheLibrary(Communicator* communicator) {
  return std::make_unique<CommunicatorSubject>(communicator);
}

int RunRank(const BenchConfig& config, const JobEnvironment& environment,
            const MakeSubject& make_subject) {
  absl::StatusOr<std::unique_ptr<Transport>> transport =
      CreateUcxTransport(TransportOptions(config));
  if (!transport.ok()) return Fail(Where(environment.rank), transport.status());
  JobOptions options;
  options.config_hash = config.AgreementHash();
  absl::StatusOr<std::unique_ptr<Job>> job = Job::Join(environment, *std::move(transport), options);
  if (!job.ok()) return Fail(Where(environment.rank), job.status());
  const absl::StatusOr<int64_t> wrong = BenchAsRank(config, job->get(), make_subject);
  const Rank rank = (*job)->rank();
  if (!wrong.ok()) {
    // The rendezvous's verdict; this rank's own words where it was the first to fail.
    const absl::Status verdict = (*job)->Verdict(wrong.status());
    const bool own = absl::StrContains(verdict.message(), wrong.status().message());
    return Fail(Where(rank), own ? wrong.status() : verdict);
  }
  if (const absl::Status left = (*job)->Leave(); !left.ok()) return Fail(Where(rank), left);
  if (*wrong == 0) return kExitOk;
  if (rank != Rank(0)) return kExitFailure;
  return Fail("", absl::DataLossError(absl::StrCat(*wrong, " elements are wrong")));
}

}  // namespace rz
