#include "collectives/algorithm.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/schedule/all_to_all.h"
#include "collectives/schedule/barrier.h"
#include "collectives/schedule/broadcast.h"
#include "collectives/schedule/bruck.h"
#include "collectives/schedule/gather.h"
#include "collectives/schedule/halving.h"
#include "collectives/schedule/pairwise.h"
#include "collectives/schedule/reduce.h"
#include "collectives/schedule/ring.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

using enum Algorithm;

ScheduleCost RingSums(int32_t n, Format partials) { return RingReduceScatterCost(n, partials); }
ScheduleCost PairwiseSums(int32_t n, Format) { return PairwiseReduceScatterCost(n); }
ScheduleCost HalvingSums(int32_t n, Format) { return HalvingReduceScatterCost(n); }

template <ScheduleCost (*kSums)(int32_t, Format)>
ScheduleCost ThenRing(int32_t n, Format partials) {
  return kSums(n, partials) + RingAllGatherCost(n, Place::kOutput);
}

template <ScheduleCost (*kSums)(int32_t, Format)>
ScheduleCost ThenGather(int32_t n, Format partials) {
  return ReduceScatterGatherCost(n, kSums(n, partials));
}

// Those whose cost does not depend on the format of sums.
template <ScheduleCost (*kCost)(int32_t)>
ScheduleCost Plain(int32_t n, Format) {
  return kCost(n);
}

ScheduleCost HalvingDoubling(int32_t n, Format partials) {
  return HalvingSums(n, partials) + BruckAllGatherCost(n, Place::kOutput);
}
ScheduleCost RingGathers(int32_t n, Format) { return RingAllGatherCost(n, Place::kInput); }
ScheduleCost BruckGathers(int32_t n, Format) { return BruckAllGatherCost(n, Place::kInput); }

constexpr AlgorithmTraits kTraits[] = {
    {.collective = Collective::kAllReduce, .algorithm = kRing, .cost = ThenRing<RingSums>},
    {.collective = Collective::kAllReduce,
     .algorithm = kRingWire,
     .canonical = false,
     .cost = ThenRing<RingSums>},
    {.collective = Collective::kAllReduce, .algorithm = kPairwise, .cost = ThenRing<PairwiseSums>},
    {.collective = Collective::kAllReduce,
     .algorithm = kHalving,
     .canonical = false,
     .unsliced = true,
     .footprint = Footprint::kWorld,
     .cost = HalvingDoubling},
    {.collective = Collective::kAllReduce,
     .algorithm = kBruck,
     .footprint = Footprint::kWorldSquared,
     .cost = Plain<BruckAllReduceCost>},
    {.collective = Collective::kReduceScatter, .algorithm = kRing, .cost = RingSums},
    {.collective = Collective::kReduceScatter,
     .algorithm = kRingWire,
     .canonical = false,
     .cost = RingSums},
    {.collective = Collective::kReduceScatter, .algorithm = kPairwise, .cost = PairwiseSums},
    {.collective = Collective::kReduceScatter,
     .algorithm = kHalving,
     .canonical = false,
     .footprint = Footprint::kWorld,
     .cost = HalvingSums},
    {.collective = Collective::kAllGather, .algorithm = kRing, .cost = RingGathers},
    {.collective = Collective::kAllGather,
     .algorithm = kBruck,
     .unsliced = true,
     .cost = BruckGathers},
    {.collective = Collective::kBroadcast,
     .algorithm = kBinomial,
     .one_block = true,
     .cost = Plain<BinomialBroadcastCost>},
    {.collective = Collective::kBroadcast,
     .algorithm = kChain,
     .one_block = true,
     .cost = Plain<ChainBroadcastCost>},
    {.collective = Collective::kBroadcast,
     .algorithm = kScatterAllGather,
     .cost = Plain<ScatterAllGatherBroadcastCost>},
    {.collective = Collective::kReduce, .algorithm = kRing, .cost = ThenGather<RingSums>},
    {.collective = Collective::kReduce,
     .algorithm = kRingWire,
     .canonical = false,
     .cost = ThenGather<RingSums>},
    {.collective = Collective::kReduce, .algorithm = kPairwise, .cost = ThenGather<PairwiseSums>},
    {.collective = Collective::kReduce,
     .algorithm = kDirect,
     .footprint = Footprint::kWorldSquared,
     .cost = Plain<DirectReduceCost>},
    {.collective = Collective::kReduce,
     .algorithm = kBinomial,
     .canonical = false,
     .one_block = true,
     .footprint = Footprint::kWorld,
     .cost = Plain<BinomialReduceCost>},
    {.collective = Collective::kReduce,
     .algorithm = kChain,
     .canonical = false,
     .one_block = true,
     .cost = ChainReduceCost},
    {.collective = Collective::kAllToAll,
     .algorithm = kPairwise,
     .cost = Plain<PairwiseAllToAllCost>},
    {.collective = Collective::kAllToAll,
     .algorithm = kBruck,
     .equal_blocks = true,
     .footprint = Footprint::kWorld,
     .cost = Plain<BruckAllToAllCost>},
    {.collective = Collective::kGather, .algorithm = kDirect, .cost = Plain<DirectGatherCost>},
    {.collective = Collective::kGather,
     .algorithm = kBinomial,
     .footprint = Footprint::kWorld,
     .cost = Plain<BinomialGatherCost>},
    {.collective = Collective::kScatter, .algorithm = kDirect, .cost = Plain<DirectGatherCost>},
    {.collective = Collective::kScatter,
     .algorithm = kBinomial,
     .footprint = Footprint::kWorld,
     .cost = Plain<BinomialGatherCost>},
    {.collective = Collective::kBarrier,
     .algorithm = kDissemination,
     .cost = Plain<DisseminationBarrierCost>},
};

constexpr AlgorithmTraits kSharedTraits[] = {
    {.collective = Collective::kAllReduce, .algorithm = kShared},
    {.collective = Collective::kReduceScatter, .algorithm = kShared},
    {.collective = Collective::kAllGather, .algorithm = kShared},
    {.collective = Collective::kBroadcast, .algorithm = kShared, .one_block = true},
    {.collective = Collective::kReduce, .algorithm = kShared},
    {.collective = Collective::kAllToAll, .algorithm = kShared},
    {.collective = Collective::kGather, .algorithm = kShared},
    {.collective = Collective::kScatter, .algorithm = kShared},
    {.collective = Collective::kBarrier, .algorithm = kShared},
};

// Sums are those of hosts, summed again.
constexpr AlgorithmTraits kHierarchicalTraits[] = {
    {.collective = Collective::kAllReduce,
     .algorithm = kHierarchical,
     .canonical = false,
     .one_block = true},
    {.collective = Collective::kReduceScatter, .algorithm = kHierarchical, .canonical = false},
    {.collective = Collective::kAllGather, .algorithm = kHierarchical},
    {.collective = Collective::kBroadcast, .algorithm = kHierarchical, .one_block = true},
    {.collective = Collective::kReduce,
     .algorithm = kHierarchical,
     .canonical = false,
     .one_block = true},
    {.collective = Collective::kBarrier, .algorithm = kHierarchical},
};

const AlgorithmTraits& SharedTraitsOf(Collective collective) {
  size_t at = 0;
  while (kSharedTraits[at].collective != collective) ++at;
  return kSharedTraits[at];
}

std::string Text(std::string_view view) { return std::string(view); }

std::string Suggestion(std::string_view wrong, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(wrong, known);
  return absl::StrCat(nearest.empty() ? "" : absl::StrCat("did you mean '", nearest, "'? "),
                      "known: ", absl::StrJoin(known, ", "));
}

absl::StatusOr<Collective> ParseLeft(std::string_view token, std::string_view left) {
  const std::optional<Collective> collective = ParseCollective(left);
  if (collective.has_value()) return *collective;
  std::vector<std::string> known;
  for (Collective c : kAllCollectives) known.push_back(Text(NameOf(c)));
  return absl::InvalidArgumentError(absl::StrCat("algorithm token '", Text(token),
                                                 "': no collective '", Text(left), "'; ",
                                                 Suggestion(left, known)));
}

absl::StatusOr<AlgorithmTraits> ParseToken(std::string_view token) {
  const size_t colon = token.find(':');
  if (colon == std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("algorithm token '", Text(token),
                     "' is not collective:algorithm, as in reduce_scatter:ring"));
  }
  const std::string_view left = token.substr(0, colon);
  const std::string_view right = token.substr(colon + 1);
  RZ_ASSIGN_OR_RETURN(const Collective collective, ParseLeft(token, left));
  std::vector<std::string> known;
  for (const AlgorithmTraits& traits : kTraits) {
    if (traits.collective != collective) continue;
    if (NameOf(traits.algorithm) == right) return traits;
    known.push_back(Text(NameOf(traits.algorithm)));
  }
  if (right == NameOf(kShared)) return SharedTraitsOf(collective);
  known.push_back(Text(NameOf(kShared)));
  if (const AlgorithmTraits* const traits = HierarchicalTraitsOf(collective); traits != nullptr) {
    if (right == NameOf(kHierarchical)) return *traits;
    known.push_back(Text(NameOf(kHierarchical)));
  }
  return absl::InvalidArgumentError(absl::StrCat("algorithm token '", Text(token),
                                                 "': no algorithm '", Text(right), "' for ",
                                                 Text(left), "; ", Suggestion(right, known)));
}

}  // namespace

std::string_view NameOf(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {
      "ring",     "ring_wire", "pairwise",           "halving",       "bruck",  "direct",
      "binomial", "chain",     "scatter_all_gather", "dissemination", "shared", "hierarchical"};
  return kNames[static_cast<size_t>(algorithm)];
}

std::ostream& operator<<(std::ostream& os, Algorithm algorithm) { return os << NameOf(algorithm); }

absl::Span<const AlgorithmTraits> AllAlgorithms() { return kTraits; }

const AlgorithmTraits* HierarchicalTraitsOf(Collective collective) {
  for (const AlgorithmTraits& traits : kHierarchicalTraits) {
    if (traits.collective == collective) return &traits;
  }
  return nullptr;
}

const AlgorithmTraits& TraitsOf(Collective collective, Algorithm algorithm) {
  if (algorithm == kShared) return SharedTraitsOf(collective);
  if (algorithm == kHierarchical) return *HierarchicalTraitsOf(collective);
  size_t at = 0;
  while (kTraits[at].collective != collective || kTraits[at].algorithm != algorithm) ++at;
  return kTraits[at];
}

Format PartialsOf(Algorithm algorithm, DType dtype, NumericMode mode) {
  if (AccumulatorOf(dtype) == dtype) return Format::kWire;
  switch (algorithm) {
    case kPairwise:
    case kBruck:
    case kDirect:
    case kShared:
      return Format::kAccumulator;
    case kRing:
      return mode == NumericMode::kDeterministic ? Format::kAccumulator : Format::kWire;
    default:
      return Format::kWire;
  }
}

Format PartialsOf(Algorithm algorithm, DType dtype, ReduceOp op, NumericMode mode) {
  return op == ReduceOp::kFunction ? Format::kWire : PartialsOf(algorithm, dtype, mode);
}

bool OrderMatters(DType dtype, ReduceOp op) {
  if (op == ReduceOp::kFunction) return true;
  return IsFloating(dtype) && op != ReduceOp::kMin && op != ReduceOp::kMax;
}

absl::Status CheckMode(const AlgorithmTraits& traits, NumericMode mode) {
  if (mode != NumericMode::kDeterministic || traits.canonical) return absl::OkStatus();
  std::vector<std::string> others;
  for (const AlgorithmTraits& other : kTraits) {
    if (other.collective == traits.collective && other.canonical) {
      others.push_back(Text(NameOf(other.algorithm)));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", Text(NameOf(traits.collective)), ":", Text(NameOf(traits.algorithm)),
      "' adds in another order or rounds on the way, and cannot keep the promise of deterministic "
      "mode; take ",
      absl::StrJoin(others, " or "), ", or fast mode"));
}

absl::StatusOr<WantedAlgorithms> ParseAlgorithms(std::string_view wanted, NumericMode mode) {
  WantedAlgorithms algorithms;
  if (wanted.empty()) return algorithms;
  for (const std::string& token : std::vector<std::string>(
           absl::StrSplit(absl::string_view(wanted.data(), wanted.size()), ','))) {
    RZ_ASSIGN_OR_RETURN(const AlgorithmTraits traits, ParseToken(token));
    RZ_RETURN_IF_ERROR(CheckMode(traits, mode));
    std::optional<Algorithm>& slot = algorithms[static_cast<size_t>(traits.collective)];
    if (slot.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", token, "': ", Text(NameOf(traits.collective)), " is given an algorithm twice"));
    }
    slot = traits.algorithm;
  }
  return algorithms;
}

}  // namespace rz
