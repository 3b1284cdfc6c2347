#include "collectives/algorithm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/limits.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr std::string_view kCollectiveNames[kCollectiveCount] = {
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"};

// What each collective can be carried by.
struct Row {
  Collective collective;
  Algorithm algorithm;
};
constexpr Row kKnown[] = {
    {Collective::kAllReduce, Algorithm::kRing},
    {Collective::kAllReduce, Algorithm::kRingWire},
    {Collective::kAllReduce, Algorithm::kPairwise},
    {Collective::kReduceScatter, Algorithm::kRing},
    {Collective::kReduceScatter, Algorithm::kRingWire},
    {Collective::kReduceScatter, Algorithm::kPairwise},
    {Collective::kAllGather, Algorithm::kRing},
    {Collective::kBroadcast, Algorithm::kBinomial},
    {Collective::kBroadcast, Algorithm::kChain},
    {Collective::kBarrier, Algorithm::kDissemination},
};

std::string Text(std::string_view view) { return std::string(view); }

std::string Suggestion(std::string_view wrong, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(wrong, known);
  return absl::StrCat(nearest.empty() ? "" : absl::StrCat("did you mean '", nearest, "'? "),
                      "known: ", absl::StrJoin(known, ", "));
}

absl::StatusOr<Row> ParseToken(std::string_view token) {
  const size_t colon = token.find(':');
  if (colon == std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("algorithm token '", Text(token),
                     "' is not collective:algorithm, as in reduce_scatter:ring"));
  }
  const std::string_view left = token.substr(0, colon);
  const std::string_view right = token.substr(colon + 1);
  const std::optional<Collective> collective = ParseCollective(left);
  if (!collective.has_value()) {
    const std::vector<std::string> known(std::begin(kCollectiveNames), std::end(kCollectiveNames));
    return absl::InvalidArgumentError(absl::StrCat("algorithm token '", Text(token),
                                                   "': no collective '", Text(left), "'; ",
                                                   Suggestion(left, known)));
  }
  std::vector<std::string> known;
  for (const Row& row : kKnown) {
    if (row.collective != *collective) continue;
    if (NameOf(row.algorithm) == right) return row;
    known.push_back(Text(NameOf(row.algorithm)));
  }
  return absl::InvalidArgumentError(absl::StrCat("algorithm token '", Text(token),
                                                 "': no algorithm '", Text(right), "' for ",
                                                 Text(left), "; ", Suggestion(right, known)));
}

}  // namespace

std::string_view NameOf(Collective collective) {
  return kCollectiveNames[static_cast<size_t>(collective)];
}

std::string_view NameOf(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kRingWire:
      return "ring_wire";
    case Algorithm::kPairwise:
      return "pairwise";
    case Algorithm::kBinomial:
      return "binomial";
    case Algorithm::kChain:
      return "chain";
    case Algorithm::kDissemination:
      return "dissemination";
  }
  return "unknown";
}

std::optional<Collective> ParseCollective(std::string_view name) {
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    if (name == kCollectiveNames[i]) return static_cast<Collective>(i);
  }
  return std::nullopt;
}

bool IsReduction(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
}

Format PartialsOf(Algorithm algorithm, DType dtype, NumericMode mode) {
  if (AccumulatorOf(dtype) == dtype) return Format::kWire;
  if (algorithm == Algorithm::kPairwise) return Format::kAccumulator;
  if (algorithm == Algorithm::kRingWire) return Format::kWire;
  return mode == NumericMode::kDeterministic ? Format::kAccumulator : Format::kWire;
}

absl::StatusOr<AlgorithmTable> AlgorithmTable::Parse(std::string_view wanted, NumericMode mode,
                                                     size_t slice_bytes) {
  AlgorithmTable table(mode, slice_bytes);
  if (wanted.empty()) return table;
  for (const std::string& token : std::vector<std::string>(
           absl::StrSplit(absl::string_view(wanted.data(), wanted.size()), ','))) {
    RZ_ASSIGN_OR_RETURN(const Row row, ParseToken(token));
    if (mode == NumericMode::kDeterministic && row.algorithm == Algorithm::kRingWire) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", token,
                       "' rounds at every hop and cannot keep the promise of deterministic mode; "
                       "take ring or pairwise, or fast mode"));
    }
    std::optional<Algorithm>& slot = table.wanted_[static_cast<size_t>(row.collective)];
    if (slot.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", token, "': ", Text(NameOf(row.collective)), " is given an algorithm twice"));
    }
    slot = row.algorithm;
  }
  return table;
}

Choice AlgorithmTable::Choose(Collective collective, DType dtype, int64_t bytes) const {
  const std::optional<Algorithm>& wanted = wanted_[static_cast<size_t>(collective)];
  if (wanted.has_value()) return {*wanted, "as asked for"};
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      if (PartialsOf(Algorithm::kRing, dtype, mode_) == Format::kAccumulator) {
        return {Algorithm::kPairwise, "a ring would carry 4-byte partial sums"};
      }
      return {Algorithm::kRing, "each byte crosses each link once"};
    case Collective::kAllGather:
      return {Algorithm::kRing, ""};
    case Collective::kBroadcast:
      if (bytes > kChainBroadcastSlices * static_cast<int64_t>(slice_bytes_)) {
        return {Algorithm::kChain, "large: slices follow each other from rank to rank"};
      }
      return {Algorithm::kBinomial, "small: fewest messages one after the other"};
    case Collective::kBarrier:
      return {Algorithm::kDissemination, ""};
  }
  return {};
}

std::string AlgorithmTable::Describe(Collective collective, DType dtype) const {
  const Choice choice = Choose(collective, dtype, 0);
  std::vector<std::string> remarks;
  if (IsReduction(collective)) {
    const bool wide = PartialsOf(choice.algorithm, dtype, mode_) == Format::kAccumulator;
    const std::string sums = Text(NameOf(wide ? AccumulatorOf(dtype) : dtype));
    remarks.push_back(choice.algorithm == Algorithm::kPairwise
                          ? absl::StrCat(Text(NameOf(dtype)), " inputs, ", sums, " sums")
                          : absl::StrCat(sums, " partial sums"));
  }
  if (!choice.reason.empty()) remarks.push_back(Text(choice.reason));
  std::string text = Text(NameOf(choice.algorithm));
  if (!remarks.empty()) absl::StrAppend(&text, " (", absl::StrJoin(remarks, "; "), ")");
  const bool by_size =
      collective == Collective::kBroadcast && !wanted_[static_cast<size_t>(collective)].has_value();
  if (by_size) {
    absl::StrAppend(&text, ", above ", kChainBroadcastSlices * slice_bytes_, " bytes chain");
  }
  return text;
}

}  // namespace rz
