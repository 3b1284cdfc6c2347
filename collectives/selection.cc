#include "collectives/selection.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "collectives/limits.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

int64_t DivideUp(int64_t a, int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

int64_t SlotsOf(Footprint footprint, int64_t world) {
  switch (footprint) {
    case Footprint::kConstant:
      return 1;
    case Footprint::kWorld:
      return 2 * world;
    case Footprint::kWorldSquared:
      return world * world;
  }
  return 1;
}

// Elements of all blocks together.
int64_t TotalElements(const Request& request, int world) {
  if (request.collective == Collective::kAllToAll && !request.has_counts) {
    return request.count * world;
  }
  return request.count;
}

// "all_gather_v of 100 float32, at most 50 of one rank".
std::string TextOf(const Request& request) {
  std::string text(NameOf(request.collective));
  if (request.has_counts) absl::StrAppend(&text, "_v");
  const bool own_counts = request.has_counts && request.collective == Collective::kAllToAll;
  if (own_counts) return absl::StrCat(text, " of counts of each rank's own");
  absl::StrAppend(&text, " of ", request.count, " ", std::string(NameOf(request.dtype)));
  if (!request.has_counts) return text;
  return absl::StrCat(text, ", at most ", request.largest_count, " of one rank");
}

// A tie goes to the one that comes first in the table.
bool Cheaper(const Candidate& a, const Candidate& b) {
  if (a.excluded.empty() != b.excluded.empty()) return a.excluded.empty();
  return a.excluded.empty() && a.predicted < b.predicted;
}

}  // namespace

Algorithm Explanation::algorithm() const {
  const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                   [](const Candidate& candidate) { return candidate.chosen; });
  return chosen->algorithm;
}

int64_t Selector::SliceElements(const AlgorithmTraits& traits, DType dtype) const {
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  const int64_t slice = static_cast<int64_t>(slice_bytes_) / size;
  if (traits.needs_hosts()) {
    const int64_t whole = slice * std::min<int64_t>(world_, kScratchSlices);
    return std::max<int64_t>(1, traits.one_block ? whole : whole / world_);
  }
  const int64_t shared_by =
      std::max<int64_t>(1, SlotsOf(traits.footprint, world_) / kScratchSlices);
  return std::max<int64_t>(1, slice / shared_by);
}

int64_t Selector::BlockElements(const AlgorithmTraits& traits, const Request& request) const {
  if (request.collective == Collective::kBarrier) return 0;
  if (traits.one_block) return request.count;
  if (request.has_counts) return request.largest_count;
  return DivideUp(TotalElements(request, world_), world_);
}

absl::Duration Selector::Predict(const AlgorithmTraits& traits, const Request& request) const {
  const auto size = static_cast<int64_t>(SizeOf(request.dtype));
  const int64_t block = BlockElements(traits, request);
  int64_t in_tile = block;
  if (request.tile_chunk > 0 && !traits.one_block) in_tile = std::min(block, request.tile_chunk);
  const int64_t slice =
      traits.unsliced ? in_tile : std::min(in_tile, SliceElements(traits, request.dtype));
  if (traits.needs_shared_memory()) {
    return PredictSharedTime(request.collective, world_, block * size);
  }
  if (traits.needs_hosts()) return PredictStages(traits, request);
  const Format partials = PartialsOf(traits.algorithm, request.dtype, request.op, request.mode);
  CostShape shape;
  shape.block_bytes = block * size;
  shape.slice_bytes = slice * size;
  shape.lanes = slice == 0 ? 1 : DivideUp(block, slice);
  shape.accumulator_ratio =
      static_cast<double>(SizeOf(AccumulatorOf(request.dtype))) / static_cast<double>(size);
  if (!traits.one_block && !request.has_counts) {
    shape.filled_blocks = std::min(
        1.0, static_cast<double>(TotalElements(request, world_)) / static_cast<double>(world_));
  }
  return PredictTime(traits.cost(world_, partials), shape,
                     ConstantsOf(link_, hosts_.cores_are_few));
}

// A slice takes its three stages in turn; of several, those within hosts lie beside the others'
// between hosts. A host has one way out, which its columns share: so a column's time is reckoned
// as if it carried the whole slice.
absl::Duration Selector::PredictStages(const AlgorithmTraits& traits,
                                       const Request& request) const {
  if (column_ == nullptr) return absl::InfiniteDuration();
  const auto size = static_cast<int64_t>(SizeOf(request.dtype));
  const int64_t slice = SliceElements(traits, request.dtype) * (traits.one_block ? 1 : world_);
  const int64_t total =
      request.collective == Collective::kBarrier ? 0 : std::max<int64_t>(request.count, 1);
  const int64_t in_slice = std::min(slice, total);
  const int64_t part = DivideUp(in_slice, hosts_.smallest) * size;
  const auto within = [this](Collective collective, int64_t block_bytes) {
    return PredictSharedTime(collective, hosts_.largest, block_bytes);
  };
  absl::Duration local;
  switch (request.collective) {
    case Collective::kBarrier:
      local = 2 * within(Collective::kBarrier, 0);
      break;
    case Collective::kBroadcast:
      local =
          within(Collective::kBroadcast, in_slice * size) + within(Collective::kAllGather, part);
      break;
    case Collective::kAllGather:
      local = within(Collective::kAllGather, DivideUp(in_slice, world_) * size) +
              within(Collective::kAllGather, part);
      break;
    default:
      local = within(Collective::kReduceScatter, part) + within(Collective::kAllGather, part);
  }
  if (hosts_.cores_are_few) local += 2 * kTurnsOnFewCores;
  Request crossing = request;
  crossing.count = in_slice;
  crossing.tile_chunk = 0;
  crossing.has_counts = false;
  const absl::Duration across = column_->PredictLeast(crossing);
  const int64_t further = total == 0 ? 0 : DivideUp(total, slice) - 1;
  return local + across + further * std::max(local, across);
}

absl::Duration Selector::PredictLeast(const Request& request) const {
  return Predict(Cheapest(request), request);
}

void Selector::Forget() {
  remembered_ = {};
  ++generation_;
}

void Selector::ShareMemory() {
  shares_memory_ = true;
  Forget();
}

void Selector::CrossNetwork() {
  link_ = LinkKind::kNetwork;
  Forget();
}

void Selector::UseHosts(const HostCounts& hosts) {
  hosts_ = hosts;
  Forget();
  if (hosts.hosts < 2 || hosts.largest < 2) return;
  column_ =
      std::make_unique<Selector>(hosts.hosts, slice_bytes_, LinkKind::kNetwork, WantedAlgorithms{});
  column_->UseHosts({hosts.hosts, 1, 1, hosts.cores_are_few});
}

std::string_view Selector::WhyNot(const AlgorithmTraits& traits, const Request& request) const {
  if (traits.needs_shared_memory()) {
    if (!shares_memory_) return "the ranks do not share memory";
    if (request.collective == Collective::kAllToAll && request.has_counts) {
      return "each rank has counts of its own";
    }
  }
  if (traits.needs_hosts() && column_ == nullptr) {
    if (shares_memory_) return "all ranks are on one host";
    return hosts_.hosts == 0 ? "it is not known which ranks share a host" : "no host has two ranks";
  }
  if (traits.equal_blocks && request.has_counts) {
    return "it needs blocks of one length, and a v variant has any";
  }
  if (traits.equal_blocks && request.collective != Collective::kAllToAll &&
      TotalElements(request, world_) % world_ != 0) {
    return "it needs blocks of one length, and the count leaves a remainder";
  }
  if (traits.unsliced && traits.footprint != Footprint::kConstant) {
    const int64_t scratch = BlockElements(traits, request) *
                            static_cast<int64_t>(SizeOf(request.dtype)) *
                            SlotsOf(traits.footprint, world_);
    if (scratch > kMaxUnslicedScratch) {
      return "it cannot be cut into slices, and its scratch would be too large";
    }
  }
  return "";
}

std::string_view Selector::WhyNotChosen(const AlgorithmTraits& traits,
                                        const Request& request) const {
  if (!traits.canonical && request.mode == NumericMode::kDeterministic && !request.any_order &&
      OrderMatters(request.dtype, request.op)) {
    return "its order of summation is not that of deterministic mode";
  }
  if (traits.footprint == Footprint::kWorldSquared && request.tile_chunk > 0) {
    return "it sends more than the least bytes, and a call in tiles is about bytes";
  }
  if (traits.needs_hosts() && request.tile_chunk > 0) {
    return "its ranks send different numbers of bytes, and a call in tiles is about bytes";
  }
  if (traits.unsliced && link_ == LinkKind::kNetwork &&
      BlockElements(traits, request) > SliceElements(traits, request.dtype)) {
    return "it cannot be cut into slices, and a network carries large messages slowly";
  }
  return WhyNot(traits, request);
}

absl::StatusOr<Algorithm> Selector::Choose(const Request& request) const {
  const std::optional<Algorithm>& wanted = wanted_[static_cast<size_t>(request.collective)];
  const bool not_yet =
      finding_out_ && (wanted == Algorithm::kShared || wanted == Algorithm::kHierarchical);
  if (wanted.has_value() && !not_yet) {
    const AlgorithmTraits& traits = TraitsOf(request.collective, *wanted);
    RZ_RETURN_IF_ERROR(CheckMode(traits, request.mode));
    const std::string_view why_not = WhyNot(traits, request);
    if (why_not.empty()) return *wanted;
    return absl::InvalidArgumentError(absl::StrCat(
        std::string(NameOf(*wanted)), " is asked for and cannot carry this ",
        std::string(NameOf(request.collective)), request.has_counts ? "_v" : "", " of ",
        request.count, " ", std::string(NameOf(request.dtype)), ": ", std::string(why_not)));
  }
  for (const Remembered& remembered : remembered_) {
    if (remembered.choice != nullptr && remembered.request == request) {
      return remembered.choice->algorithm;
    }
  }
  const AlgorithmTraits& cheapest = Cheapest(request);
  remembered_[next_to_forget_] = {request, &cheapest};
  next_to_forget_ = (next_to_forget_ + 1) % kRemembered;
  return cheapest.algorithm;
}

const AlgorithmTraits& Selector::Cheapest(const Request& request) const {
  const AlgorithmTraits& shared = TraitsOf(request.collective, Algorithm::kShared);
  if (WhyNot(shared, request).empty()) return shared;
  const AlgorithmTraits* best = nullptr;
  absl::Duration least;
  const auto consider = [&](const AlgorithmTraits& traits) {
    if (!WhyNotChosen(traits, request).empty()) return;
    const absl::Duration predicted = Predict(traits, request);
    if (best != nullptr && predicted >= least) return;
    best = &traits;
    least = predicted;
  };
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    if (traits.collective == request.collective) consider(traits);
  }
  if (const auto* const hierarchical = HierarchicalTraitsOf(request.collective);
      hierarchical != nullptr) {
    consider(*hierarchical);
  }
  return *best;
}

absl::StatusOr<Carriage> Selector::CarriageOf(Collective collective, DType dtype,
                                              NumericMode mode) const {
  const int64_t count = kLargeCallBytes / static_cast<int64_t>(SizeOf(dtype));
  const Request request = {.collective = collective,
                           .dtype = dtype,
                           .count = count,
                           .tile_chunk = DivideUp(count, world_),
                           .mode = mode};
  RZ_ASSIGN_OR_RETURN(const Explanation explained, Explain(request));
  const Algorithm algorithm = explained.algorithm();
  Carriage carriage;
  carriage.text = std::string(NameOf(algorithm));
  const bool sends_inputs_to_all = IsReduction(collective) && (algorithm == Algorithm::kBruck ||
                                                               algorithm == Algorithm::kDirect);
  carriage.least_bytes = !sends_inputs_to_all && algorithm != Algorithm::kHierarchical;
  if (algorithm != Algorithm::kShared) carriage.wire = dtype;
  if (!IsReduction(collective)) {
    if (explained.candidates.size() > 1) {
      absl::StrAppend(&carriage.text, " (", explained.reason, ")");
    }
    return carriage;
  }
  const bool wide = PartialsOf(algorithm, dtype, mode) == Format::kAccumulator;
  const DType sums = wide ? AccumulatorOf(dtype) : dtype;
  const bool inputs_travel = algorithm == Algorithm::kPairwise || algorithm == Algorithm::kBruck ||
                             algorithm == Algorithm::kDirect || algorithm == Algorithm::kShared;
  if (!inputs_travel) carriage.wire = sums;
  absl::StrAppend(&carriage.text, " (",
                  inputs_travel ? absl::StrCat(std::string(NameOf(dtype)), " inputs, ",
                                               std::string(NameOf(sums)), " sums")
                                : absl::StrCat(std::string(NameOf(sums)), " partial sums"),
                  "; ", explained.reason, ")");
  return carriage;
}

Candidate Selector::Consider(const AlgorithmTraits& traits, const Request& request) const {
  Candidate candidate;
  candidate.algorithm = traits.algorithm;
  candidate.excluded = WhyNotChosen(traits, request);
  candidate.predicted = Predict(traits, request);
  return candidate;
}

absl::StatusOr<Explanation> Selector::Explain(const Request& request) const {
  RZ_ASSIGN_OR_RETURN(const Algorithm chosen, Choose(request));
  const bool wanted = wanted_[static_cast<size_t>(request.collective)].has_value();
  Explanation explanation;
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    if (traits.collective != request.collective) continue;
    explanation.candidates.push_back(Consider(traits, request));
    explanation.candidates.back().chosen = traits.algorithm == chosen;
  }
  if (shares_memory_) {
    explanation.candidates.push_back(
        Consider(TraitsOf(request.collective, Algorithm::kShared), request));
    explanation.candidates.back().chosen = chosen == Algorithm::kShared;
  }
  if (const auto* const hierarchical = HierarchicalTraitsOf(request.collective);
      hierarchical != nullptr && hosts_.hosts > 0) {
    explanation.candidates.push_back(Consider(*hierarchical, request));
    explanation.candidates.back().chosen = chosen == Algorithm::kHierarchical;
  }
  std::stable_sort(explanation.candidates.begin(), explanation.candidates.end(), Cheaper);
  explanation.reason = wanted                         ? "as asked for"
                       : chosen == Algorithm::kShared ? "the ranks share memory"
                       : explanation.candidates.size() == 1
                           ? "the only one"
                           : absl::StrCat("least predicted time over ", std::string(NameOf(link_)),
                                          hosts_.cores_are_few ? ", ranks share cores" : "");
  explanation.text =
      absl::StrCat(TextOf(request), " on ", world_, " ranks, ", std::string(NameOf(request.mode)),
                   ": ", std::string(NameOf(chosen)), " (", explanation.reason, ")\n");
  for (const Candidate& candidate : explanation.candidates) {
    absl::StrAppend(
        &explanation.text, candidate.chosen ? "* " : "  ", std::string(NameOf(candidate.algorithm)),
        ": ", absl::FormatDuration(absl::Trunc(candidate.predicted, absl::Nanoseconds(100))),
        candidate.excluded.empty() ? "" : "; not chosen: ", std::string(candidate.excluded), "\n");
  }
  return explanation;
}

}  // namespace rz
