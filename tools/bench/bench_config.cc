#include "tools/bench/bench_config.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/algorithm.h"
#include "collectives/kernels/reduce_kernel.h"
#include "runtime/base/fnv_hash.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status_macros.h"
#include "runtime/rendezvous/limits.h"

namespace rz {
namespace {

constexpr int64_t kMaxIterations = 1'000'000'000;
constexpr int64_t kMaxSamples = 10'000'000;  // 8 bytes each
constexpr int64_t kMaxAggregate = 1024;
constexpr int64_t kMaxUnalign = 4096;
constexpr IntRange kSwitch = {0, 1};

// All values where `text` is "all", otherwise the one that `parse` reads.
template <typename T, size_t N, typename Parse>
absl::StatusOr<std::vector<T>> ReadNames(const char* flag, const std::string& text,
                                         const T (&all)[N], Parse parse) {
  if (text == "all") return std::vector<T>(std::begin(all), std::end(all));
  const std::optional<T> value = parse(text);
  if (value.has_value()) return std::vector<T>{*value};
  std::vector<std::string> names = {"all"};
  for (T one : all) names.emplace_back(NameOf(one));
  const std::string nearest = NearestName(text, names);
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " takes one of ", absl::StrJoin(names, ", "), ", not '", text, "'",
                   nearest.empty() ? "" : absl::StrCat(": did you mean ", nearest, "?")));
}

bool HasMeaning(DType dtype, ReduceOp op) { return GetReduceKernel(dtype, op).ok(); }

}  // namespace

std::vector<ElementKind> BenchConfig::KindsOf(BenchOperation operation) const {
  std::vector<ElementKind> kinds;
  if (operation == BenchOperation::kBarrier) return {{.dtype = dtypes[0], .op = std::nullopt}};
  for (DType dtype : dtypes) {
    if (!TraitsOf(operation).reduces) {
      kinds.push_back({.dtype = dtype, .op = std::nullopt});
      continue;
    }
    for (ReduceOp op : ops) {
      if (HasMeaning(dtype, op)) kinds.push_back({.dtype = dtype, .op = op});
    }
  }
  return kinds;
}

std::string BenchConfig::SkippedKinds() const {
  std::vector<std::string> skipped;
  for (ReduceOp op : ops) {
    for (DType dtype : dtypes) {
      if (HasMeaning(dtype, op)) continue;
      skipped.push_back(absl::StrCat(std::string(NameOf(op)), " of ", std::string(NameOf(dtype))));
    }
  }
  return absl::StrJoin(skipped, ", ");
}

uint64_t BenchConfig::AgreementHash() const {
  const uint64_t hash = FnvHash(absl::StrCat(absl::StrJoin(arguments, "\n"), "\n", algorithms));
  return hash == 0 ? 1 : hash;
}

void BenchFlags::DeclareShape(FlagSet* flags) {
  flags->Int("ranks", &values_.ranks, {1, limits::kMaxWorldSize},
             "ranks to start on this host; within a job its size, and may be left out", {"np"});
  flags->Size("minbytes", &values_.sweep.min_bytes, "smallest size", {"b"});
  flags->Size("maxbytes", &values_.sweep.max_bytes, "largest size", {"e"});
  flags->Size("stepbytes", &values_.sweep.step_bytes, "from one size to the next, without -f",
              {"i"});
  flags->Double("stepfactor", &values_.sweep.step_factor, {1, 1e9},
                "from one size to the next; 1: by -i", {"f"});
  flags->String("sizes", &sizes_, "these sizes, e.g. 8,1K,32M, in place of -b, -e, -i and -f");
  flags->String("op", &op_, "sum, prod, max, min, avg, premul_sum (mulsum) or all", {"o"});
  flags->String("datatype", &dtype_, "element type, e.g. float, bfloat16, f8e4m3, or all", {"d"});
  flags->String("root", &root_, "of operations that have one: a rank, or all", {"r"});
  flags->Enum("counts", &counts_, {"even", "half", "zero"},
              "of v variants: even; rank 0 has half; odd ranks have nothing");
  flags->Int("unalign", &values_.unalign, {0, kMaxUnalign},
             "index of the buffers' first element: not at a page's begin", {"u"});
  flags->Int("local_register", &registration_, {0, 2},
             "buffers: 0 private memory, 1 memory that the ranks of a host share", {"R"});
}

void BenchFlags::DeclareMethod(FlagSet* flags) {
  MeasurementPlan& plan = values_.plan;
  flags->Int("iters", &plan.iterations, {0, kMaxIterations},
             "timed calls; 0: as many as --budget allows", {"n"});
  flags->Duration("budget", &plan.budget, {absl::Microseconds(1), absl::Hours(1)},
                  "time for the timed calls of one size, without -n (5 calls at least)");
  flags->Int("warmup_iters", &plan.warmup, {0, kMaxIterations}, "calls before, for each size",
             {"w"});
  flags->Int("agg_iters", &values_.aggregate, {1, kMaxAggregate},
             "operations in one group, each on memory of its own; times are of one", {"m"});
  flags->Int("run_cycles", &values_.cycles, {0, kMaxIterations},
             "how often everything is done; 0: until interrupted", {"N"});
  flags->Int("check", &values_.checks, {0, kMaxIterations},
             "calls whose results are checked, each with fresh inputs", {"c"});
  flags->Int("average", &average_, {0, 3}, "time of: 0 rank 0, 1 mean, 2 fastest, 3 slowest rank",
             {"a"});
  flags->Duration("timeout", &values_.timeout, {absl::Milliseconds(1), absl::Hours(24)},
                  "the longest a call may take", {"T"});
  flags->Bool("fresh", &fresh_, "every rank rewrites its input before each call, not timed");
  flags->Bool("batches", &batches_,
              "the median of batches of 200 us, each after a barrier: as for --against");
  flags->Enum("numeric", &numeric_mode_, {"deterministic", "fast"},
              "whether sums must not depend on the algorithm, or may round at every hop");
  flags->String("algo", &values_.algorithms,
                "collective:algorithm,... as in RZ_ALGO, which it beats, e.g. reduce_scatter:ring");
  flags->Enum("transport", &values_.transport, {"auto", "tcp", "shm"},
              "what carries the bytes: the best there is, TCP alone, shared memory alone");
  flags->Enum("link", &link_, {"auto", "messages"},
              "auto: memory that the ranks share, where all can; messages: never that");
  flags->Int(
      "spins", &values_.spins, {0, kMaxIterations},
      "how often a waiting rank looks before it gives its core away; by the cores there are");
  flags->Enum("bind", &binding_, {"auto", "core", "none"},
              "keep each rank on a processor of its own; auto: where there are enough");
}

void BenchFlags::DeclareOutput(FlagSet* flags) {
  flags->Bool("explain", &values_.explain,
              "say which algorithm each size would take and why, and run nothing");
  flags->Bool("limit", &values_.columns.limit,
              "also what moving the bytes costs at least: each rank in its own memory");
  flags->Double(
      "cliffs", &values_.cliffs, {1, 1000},
      "name sizes that take more than so many times what their neighbours' times promise; "
      "best with --batches");
  flags->Bool("percentiles", &values_.columns.percentiles,
              "time each call: min, p50, p90, p99, max over the slowest rank's");
  flags->Int("per_iter_timing", &per_iteration_, kSwitch,
             "time each call: columns i_min, i_max, i_p99, i_cv%", {"I"});
  flags->Int("per_iter_skip", &values_.plan.skip_samples, {0, kMaxIterations},
             "first calls that those leave out", {"K"});
  flags->Int("report_cputime", &cpu_time_, kSwitch,
             "show processor time of a call in place of elapsed time", {"C"});
  flags->Int("report_timestamps", &timestamps_, kSwitch, "a column with the time of day", {"S"});
  flags->Int("memory", &memory_, kSwitch, "show the memory of buffers and of scratch", {"M"});
  flags->String("json", &values_.json_path, "write the results to this file, or FILE.1, ...",
                {"J"});
  flags->String("csv", &values_.csv_path, "write the results to this file, or FILE.1, ...");
  flags->String("plot", &values_.plot_path, "draw the results into this HTML file");
}

void BenchFlags::DeclareComparison(FlagSet* flags) {
  values_.peer_folder = DefaultPeerFolder();
  flags->String("against", &against_,
                "openmpi,mpich,gloo or some of them: measured in turn with ringzero, as ratios");
  flags->Bool("against-default", &values_.against_default,
              "also as they are out of the box, beside their best settings");
  flags->Int("rounds", &values_.rounds, {1, 1000}, "of --against");
  flags->String("peer-folder", &values_.peer_folder,
                "where tools/bench/peers/build has put their programs");
}

void BenchFlags::Declare(FlagSet* flags) {
  DeclareShape(flags);
  DeclareMethod(flags);
  DeclareOutput(flags);
  DeclareComparison(flags);
}

absl::Status BenchFlags::ReadSampling(BenchConfig* config) const {
  MeasurementPlan& plan = config->plan;
  const bool each = config->columns.per_iteration || config->columns.percentiles;
  if (fresh_ && batches_) {
    return absl::InvalidArgumentError(
        "--fresh and --batches exclude each other: a rewritten input is good for one call");
  }
  plan.sampling = fresh_     ? Sampling::kFresh
                  : batches_ ? Sampling::kBatches
                  : each     ? Sampling::kEach
                             : Sampling::kPlain;
  if ((fresh_ || each) && plan.iterations > kMaxSamples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "-n takes at most ", kMaxSamples, " where each call is timed, not ", plan.iterations));
  }
  return absl::OkStatus();
}

absl::Status BenchFlags::ReadKinds(BenchConfig* config) const {
  RZ_ASSIGN_OR_RETURN(config->dtypes, ReadNames("-d", dtype_, kAllDTypes, ParseDType));
  RZ_ASSIGN_OR_RETURN(config->ops, ReadNames("-o", op_, kAllReduceOps, ParseReduceOp));
  for (BenchOperation operation : config->operations) {
    if (config->KindsOf(operation).empty()) {
      return GetReduceKernel(config->dtypes[0], config->ops[0]).status();
    }
  }
  return absl::OkStatus();
}

absl::Status BenchFlags::ReadRoot(BenchConfig* config) const {
  config->all_roots = root_ == "all";
  if (config->all_roots) return absl::OkStatus();
  if (!absl::SimpleAtoi(root_, &config->root) || config->root < 0) {
    return absl::InvalidArgumentError(absl::StrCat("-r takes a rank or all, not '", root_, "'"));
  }
  if (config->ranks > 0 && config->root >= config->ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("-r ", config->root, " is not a rank of 0 to ", config->ranks - 1));
  }
  return absl::OkStatus();
}

absl::Status BenchFlags::ReadComparison(BenchConfig* config) const {
  if (against_.empty()) {
    if (!config->against_default) return absl::OkStatus();
    return absl::InvalidArgumentError("--against-default needs --against");
  }
  RZ_ASSIGN_OR_RETURN(config->against, ParsePeers(against_));
  if (config->dtypes != std::vector<DType>{DType::kFloat32} ||
      config->ops != std::vector<ReduceOp>{ReduceOp::kSum} || config->root != 0 ||
      config->all_roots) {
    return absl::InvalidArgumentError("--against compares float sums with root 0: no -d, -o, -r");
  }
  if (config->aggregate != 1 || config->unalign != 0 || config->plan.iterations != 0) {
    return absl::InvalidArgumentError(
        "--against measures single calls on aligned buffers by --budget: no -m, -u, -n");
  }
  return absl::OkStatus();
}

absl::StatusOr<BenchConfig> BenchFlags::Read(const FlagSet& flags,
                                             const std::string& environment_algorithms) const {
  BenchConfig config = values_;
  RZ_ASSIGN_OR_RETURN(config.operations, ParseOperations(flags.positional()));
  RZ_ASSIGN_OR_RETURN(config.sizes, sizes_.empty() ? SizesOf(config.sweep) : ParseSizes(sizes_));
  config.share_memory = link_ == "auto" && config.transport != "tcp";
  config.columns.cpu_time = config.plan.cpu_time = cpu_time_ == 1;
  config.columns.timestamps = timestamps_ == 1;
  config.columns.per_iteration = per_iteration_ == 1;
  config.report_memory = memory_ == 1;
  RZ_RETURN_IF_ERROR(ReadKinds(&config));
  RZ_RETURN_IF_ERROR(ReadRoot(&config));
  RZ_RETURN_IF_ERROR(ReadSampling(&config));
  RZ_RETURN_IF_ERROR(ReadComparison(&config));
  if (registration_ == 2) {
    return absl::InvalidArgumentError(
        "-R 2 means nothing here (windows of GPU memory); -R 1 registers buffers");
  }
  config.registration = static_cast<Registration>(registration_);
  config.registered_beside = !flags.WasSet("local_register") && config.share_memory;
  config.plan.average = static_cast<RankAverage>(average_);
  config.numeric_mode = *ParseNumericMode(numeric_mode_);
  config.counts = counts_ == "even"   ? CountPattern::kEven
                  : counts_ == "half" ? CountPattern::kHalf
                                      : CountPattern::kZero;
  config.binding = binding_ == "auto"   ? Binding::kAuto
                   : binding_ == "core" ? Binding::kCore
                                        : Binding::kNone;
  if (!flags.WasSet("algo")) config.algorithms = environment_algorithms;
  RZ_RETURN_IF_ERROR(ParseAlgorithms(config.algorithms, config.numeric_mode).status());
  const bool writes =
      !config.csv_path.empty() || !config.json_path.empty() || !config.plot_path.empty();
  if (config.cycles == 0 && writes) {
    return absl::InvalidArgumentError("-N 0 never ends, so no file would be written: give -N");
  }
  return config;
}

}  // namespace rz
