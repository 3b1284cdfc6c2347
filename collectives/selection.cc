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
  const Format partials = PartialsOf(traits.algorithm, request.dtype, request.mode);
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
  return PredictTime(traits.cost(world_, partials), shape, ConstantsOf(link_));
}

void Selector::ShareMemory() {
  shares_memory_ = true;
  remembered_ = {};
}

void Selector::CrossNetwork() {
  link_ = LinkKind::kNetwork;
  remembered_ = {};
}

std::string_view Selector::WhyNot(const AlgorithmTraits& traits, const Request& request) const {
  if (traits.needs_shared_memory()) {
    if (!shares_memory_) return "the ranks do not share memory";
    if (request.collective == Collective::kAllToAll && request.has_counts) {
      return "each rank has counts of its own";
    }
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
  if (!traits.canonical && request.mode == NumericMode::kDeterministic &&
      OrderMatters(request.dtype, request.op)) {
    return "its order of summation is not that of deterministic mode";
  }
  if (traits.footprint == Footprint::kWorldSquared && request.tile_chunk > 0) {
    return "it sends more than the least bytes, and a call in tiles is about bytes";
  }
  if (traits.unsliced && link_ == LinkKind::kNetwork &&
      BlockElements(traits, request) > SliceElements(traits, request.dtype)) {
    return "it cannot be cut into slices, and a network carries large messages slowly";
  }
  return WhyNot(traits, request);
}

absl::StatusOr<Algorithm> Selector::Choose(const Request& request) const {
  const std::optional<Algorithm>& wanted = wanted_[static_cast<size_t>(request.collective)];
  if (wanted.has_value() && !(finding_out_ && *wanted == Algorithm::kShared)) {
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
  for (const AlgorithmTraits& traits : AllAlgorithms()) {
    if (traits.collective != request.collective || !WhyNotChosen(traits, request).empty()) {
      continue;
    }
    const absl::Duration predicted = Predict(traits, request);
    if (best != nullptr && predicted >= least) continue;
    best = &traits;
    least = predicted;
  }
  return *best;
}

absl::StatusOr<Carriage> Selector::CarriageOf(Collective collective, DType dtype,
                                              NumericMode mode) const {
  const Request request = {.collective = collective,
                           .dtype = dtype,
                           .count = kLargeCallBytes / static_cast<int64_t>(SizeOf(dtype)),
                           .mode = mode};
  RZ_ASSIGN_OR_RETURN(const Explanation explained, Explain(request));
  const Algorithm algorithm = explained.algorithm();
  Carriage carriage;
  carriage.text = std::string(NameOf(algorithm));
  carriage.least_bytes = algorithm != Algorithm::kBruck && algorithm != Algorithm::kDirect;
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
  std::stable_sort(explanation.candidates.begin(), explanation.candidates.end(), Cheaper);
  explanation.reason = wanted                         ? "as asked for"
                       : chosen == Algorithm::kShared ? "the ranks share memory"
                       : explanation.candidates.size() == 1
                           ? "the only one"
                           : absl::StrCat("least predicted time over ", std::string(NameOf(link_)));
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
