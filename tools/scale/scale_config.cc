#include "tools/scale/scale_config.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status_macros.h"
#include "tools/bench/operation.h"
#include "tools/bench/size_sweep.h"

namespace rz {
namespace {

constexpr int64_t kMaxRanks = 65536;
constexpr int64_t kMaxSize = int64_t{1} << 46;
constexpr DurationRange kLatencies = {absl::ZeroDuration(), absl::Seconds(10)};

std::vector<std::string> AlgorithmNames() {
  std::vector<std::string> names = {"all"};
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    const std::string name(NameOf(traits.algorithm));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  names.emplace_back(NameOf(Algorithm::kHierarchical));
  return names;
}

absl::StatusOr<std::vector<Algorithm>> ParseAlgorithmList(const std::string& text) {
  if (text == "all") return std::vector<Algorithm>{};
  std::vector<Algorithm> algorithms;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(text, ','))) {
    if (name == NameOf(Algorithm::kHierarchical)) {
      algorithms.push_back(Algorithm::kHierarchical);
      continue;
    }
    const auto found =
        std::find_if(AllAlgorithms().begin(), AllAlgorithms().end(),
                     [&](const AlgorithmTraits& t) { return NameOf(t.algorithm) == name; });
    if (found == AllAlgorithms().end()) {
      const std::vector<std::string> names = AlgorithmNames();
      const std::string nearest = NearestName(name, names);
      return absl::InvalidArgumentError(
          absl::StrCat("--algorithm takes some of ", absl::StrJoin(names, ", "), ", not '", name,
                       "'", nearest.empty() ? "" : absl::StrCat(": did you mean ", nearest, "?")));
    }
    algorithms.push_back(found->algorithm);
  }
  return algorithms;
}

absl::StatusOr<std::vector<Collective>> ParseCollectives(const std::vector<std::string>& names) {
  if (names.empty()) {
    return std::vector<Collective>{Collective::kReduceScatter, Collective::kAllGather,
                                   Collective::kAllReduce};
  }
  RZ_ASSIGN_OR_RETURN(const std::vector<BenchOperation> operations, ParseOperations(names));
  std::vector<Collective> collectives;
  for (BenchOperation operation : operations) {
    const OperationTraits& traits = TraitsOf(operation);
    if (!traits.is_v && traits.collective.has_value()) {
      collectives.push_back(*traits.collective);
    } else if (names != std::vector<std::string>{"all"}) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", std::string(traits.name), "' is not simulated, the even collectives are"));
    }
  }
  return collectives;
}

absl::StatusOr<std::vector<int>> ParseRanks(const std::string& text) {
  std::vector<int> ranks;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int64_t number = 0;
    if (!ParseSize({part.data(), part.size()}, SizeUnit::kBinary, &number).ok() || number < 1 ||
        number > kMaxRanks) {
      return absl::InvalidArgumentError(absl::StrCat("--ranks takes numbers from 1 to ", kMaxRanks,
                                                     " such as 64 or 4K, between commas, not '",
                                                     part, "'"));
    }
    ranks.push_back(static_cast<int>(number));
  }
  return ranks;
}

}  // namespace

std::vector<Algorithm> ScaleConfig::AlgorithmsOf(Collective collective) const {
  std::vector<Algorithm> own;
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    if (traits.collective == collective) own.push_back(traits.algorithm);
  }
  const bool in_stages = HierarchicalTraitsOf(collective) != nullptr;
  if (in_stages && (!algorithms.empty() || links.ranks_per_host > 1)) {
    own.push_back(Algorithm::kHierarchical);
  }
  if (algorithms.empty()) return own;
  std::vector<Algorithm> taken;
  for (Algorithm algorithm : algorithms) {
    if (collective == Collective::kAllGather && algorithm == Algorithm::kHalving) {
      algorithm = Algorithm::kBruck;
    }
    const bool known = std::find(own.begin(), own.end(), algorithm) != own.end();
    const bool twice = std::find(taken.begin(), taken.end(), algorithm) != taken.end();
    if (known && !twice) taken.push_back(algorithm);
  }
  return taken;
}

void ScaleFlags::Declare(FlagSet* flags) {
  flags->Positional("[OPERATION...|all]");
  flags->String("ranks", &ranks_, "worlds to simulate", {"n", "np"});
  flags->String("sizes", &sizes_, "bytes of a rank's larger buffer");
  flags->String("algorithm", &algorithms_,
                "some of those of RZ_ALGO, or all; each collective takes those it has (all_gather "
                "takes bruck for halving); hierarchical needs --ranks-per-host");
  flags->String("datatype", &dtype_, "element type, e.g. float32, bfloat16", {"d"});
  flags->Enum("numeric", &numeric_, {"deterministic", "fast"},
              "deterministic: a ring of 16-bit elements carries float32 sums, and halving is out");
  flags->Size("slice", &values_.slice_bytes, "most bytes of a chunk in one message");
  flags->Int("lanes", &values_.lanes_in_flight, {1, kMaxLanesInFlight}, "messages under way");
  flags->Duration("alpha", &values_.links.latency, kLatencies, "latency of a message");
  flags->Size("bandwidth", &bandwidth_, "bytes/s of a rank in each direction; 0: no limit", {},
              SizeUnit::kDecimal);
  flags->Int("ranks-per-host", &ranks_per_host_, {1, kMaxRanks}, "ranks 0 .. n-1 are on one host");
  flags->Size("host-bandwidth", &host_bandwidth_,
              "of a host's interface, which its ranks share; 0: no limit", {}, SizeUnit::kDecimal);
  flags->Duration("local-alpha", &local_latency_, kLatencies,
                  "latency within a host, where it differs");
  flags->Size("local-bandwidth", &local_bandwidth_,
              "of a rank to others of its host, where it differs; 0: no limit", {},
              SizeUnit::kDecimal);
  flags->Int("hosts-per-rack", &hosts_per_rack_, {0, kMaxRanks}, "0: all in one");
  flags->Size("rack-bandwidth", &rack_bandwidth_,
              "of a rack's uplink, which its hosts share; 0: no limit", {}, SizeUnit::kDecimal);
  flags->Size("reduce-bandwidth", &reduce_bandwidth_,
              "bytes/s that a rank adds on its core; 0: in no time", {}, SizeUnit::kDecimal);
  flags->String("plot", &values_.plot_path,
                "draw the times into this page, or, where it ends in .svg, figure");
  flags->String("csv", &values_.csv_path, "write the results to this file, or FILE.1, ...");
  flags->String("json", &values_.json_path, "write the results to this file, or FILE.1, ...");
}

absl::Status ScaleFlags::ReadLinks(const FlagSet& flags, ScaleConfig* config) const {
  LinkOptions& links = config->links;
  links.rank_bandwidth = static_cast<double>(bandwidth_);
  links.ranks_per_host = static_cast<int>(ranks_per_host_);
  links.hosts_per_rack = static_cast<int>(hosts_per_rack_);
  links.host_bandwidth = static_cast<double>(host_bandwidth_);
  links.rack_bandwidth = static_cast<double>(rack_bandwidth_);
  if (flags.WasSet("local-alpha")) links.local_latency = local_latency_;
  if (flags.WasSet("local-bandwidth")) {
    links.local_bandwidth = static_cast<double>(local_bandwidth_);
  }
  config->reduce_bandwidth = static_cast<double>(reduce_bandwidth_);
  if (rack_bandwidth_ > 0 && hosts_per_rack_ == 0) {
    return absl::InvalidArgumentError("--rack-bandwidth needs --hosts-per-rack");
  }
  return CheckLinks(links);
}

absl::StatusOr<ScaleConfig> ScaleFlags::Read(const FlagSet& flags) const {
  ScaleConfig config = values_;
  RZ_ASSIGN_OR_RETURN(config.collectives, ParseCollectives(flags.positional()));
  RZ_ASSIGN_OR_RETURN(config.ranks, ParseRanks(ranks_));
  RZ_ASSIGN_OR_RETURN(config.sizes, ParseSizes(sizes_));
  for (int64_t size : config.sizes) {
    if (size > kMaxSize) {
      return absl::InvalidArgumentError(
          absl::StrCat("--sizes takes at most ", kMaxSize, " bytes, not ", size));
    }
  }
  RZ_ASSIGN_OR_RETURN(config.algorithms, ParseAlgorithmList(algorithms_));
  const std::optional<DType> dtype = ParseDType(dtype_);
  if (!dtype.has_value()) {
    std::vector<std::string> names;
    for (DType one : kAllDTypes) names.emplace_back(NameOf(one));
    return absl::InvalidArgumentError(absl::StrCat(
        "--datatype takes one of ", absl::StrJoin(names, ", "), ", not '", dtype_, "'"));
  }
  config.dtype = *dtype;
  config.mode = *ParseNumericMode(numeric_);
  if (config.slice_bytes < static_cast<int64_t>(kMinSliceBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--slice is at least ", kMinSliceBytes, ", not ", config.slice_bytes));
  }
  RZ_RETURN_IF_ERROR(ReadLinks(flags, &config));
  return config;
}

}  // namespace rz
