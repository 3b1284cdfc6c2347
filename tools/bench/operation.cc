#include "tools/bench/operation.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

using Op = BenchOperation;

constexpr OperationTraits kTraits[] = {
    {.operation = Op::kAllReduce,
     .name = "all_reduce",
     .collective = Collective::kAllReduce,
     .reduces = true},
    {.operation = Op::kReduceScatter,
     .name = "reduce_scatter",
     .collective = Collective::kReduceScatter,
     .reduces = true},
    {.operation = Op::kAllGather, .name = "all_gather", .collective = Collective::kAllGather},
    // Its interface has one buffer.
    {.operation = Op::kBroadcast,
     .name = "broadcast",
     .collective = Collective::kBroadcast,
     .has_root = true,
     .out_of_place = false},
    {.operation = Op::kReduce,
     .name = "reduce",
     .collective = Collective::kReduce,
     .reduces = true,
     .has_root = true},
    {.operation = Op::kAllToAll,
     .name = "all_to_all",
     .collective = Collective::kAllToAll,
     .in_place = false},
    {.operation = Op::kGather,
     .name = "gather",
     .collective = Collective::kGather,
     .has_root = true},
    {.operation = Op::kScatter,
     .name = "scatter",
     .collective = Collective::kScatter,
     .has_root = true},
    {.operation = Op::kSendRecv, .name = "sendrecv", .collective = std::nullopt, .in_place = false},
    {.operation = Op::kBarrier,
     .name = "barrier",
     .collective = Collective::kBarrier,
     .in_place = false},
    {.operation = Op::kReduceScatterV,
     .name = "reduce_scatter_v",
     .collective = Collective::kReduceScatter,
     .is_v = true,
     .reduces = true},
    {.operation = Op::kAllGatherV,
     .name = "all_gather_v",
     .collective = Collective::kAllGather,
     .is_v = true},
    {.operation = Op::kAllToAllV,
     .name = "all_to_all_v",
     .collective = Collective::kAllToAll,
     .is_v = true,
     .in_place = false},
};

// The name without what people write differently: "All_Reduce_perf" -> "allreduce".
std::string Bare(std::string_view name) {
  std::string bare = absl::AsciiStrToLower(absl::string_view(name.data(), name.size()));
  bare = absl::StrReplaceAll(bare, {{"_", ""}, {"-", ""}});
  if (absl::EndsWith(bare, "perf")) bare.resize(bare.size() - 4);
  return bare == "bcast" ? "broadcast" : bare;
}

absl::StatusOr<Op> ParseOperation(const std::string& name) {
  std::vector<std::string> known = {"all"};
  for (const OperationTraits& traits : kTraits) {
    if (Bare(traits.name) == Bare(name)) return traits.operation;
    known.emplace_back(traits.name);
  }
  const std::string nearest = NearestName(name, known);
  return absl::InvalidArgumentError(absl::StrCat(
      "no operation '", name, "'",
      nearest.empty() ? "; --help lists them" : absl::StrCat(": did you mean ", nearest, "?")));
}

}  // namespace

const OperationTraits& TraitsOf(BenchOperation operation) {
  return kTraits[static_cast<size_t>(operation)];
}

std::string_view NameOf(BenchOperation operation) { return TraitsOf(operation).name; }

const std::vector<BenchOperation>& AllOperations() {
  static const auto* const all = [] {
    auto* operations = new std::vector<Op>;
    for (const OperationTraits& traits : kTraits) operations->push_back(traits.operation);
    return operations;
  }();
  return *all;
}

absl::StatusOr<std::vector<BenchOperation>> ParseOperations(const std::vector<std::string>& names) {
  if (names.empty()) {
    return absl::InvalidArgumentError("which operation? e.g. all_reduce, or all");
  }
  std::vector<Op> operations;
  const auto add = [&](Op operation) {
    if (std::find(operations.begin(), operations.end(), operation) == operations.end()) {
      operations.push_back(operation);
    }
  };
  for (const std::string& name : names) {
    if (name == "all") {
      for (Op operation : AllOperations()) add(operation);
      continue;
    }
    RZ_ASSIGN_OR_RETURN(const Op operation, ParseOperation(name));
    add(operation);
  }
  return operations;
}

double BusFactor(BenchOperation operation, int world) {
  const double others = static_cast<double>(world - 1) / world;
  switch (operation) {
    case Op::kAllReduce:
      return 2 * others;
    case Op::kBroadcast:
    case Op::kReduce:
    case Op::kSendRecv:
      return 1;
    case Op::kBarrier:
      return 0;
    case Op::kReduceScatter:
    case Op::kAllGather:
    case Op::kAllToAll:
    case Op::kGather:
    case Op::kScatter:
    case Op::kReduceScatterV:
    case Op::kAllGatherV:
    case Op::kAllToAllV:
      return others;
  }
  return 0;
}

}  // namespace rz
