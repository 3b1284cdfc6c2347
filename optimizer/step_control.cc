#include "optimizer/step_control.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/fnv_hash.h"

namespace rz {
namespace {

template <typename T>
absl::Status Disagreement(size_t rank, std::string_view what, const T& found, const T& expected) {
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", rank, " has ", std::string(what), " ", found, " where rank 0 has ", expected,
      "; start all ranks with the same model and settings, and step them alike"));
}

absl::Status CheckAgreement(absl::Span<const StepVote> votes) {
  const StepVote& first = votes[0];
  for (size_t rank = 1; rank < votes.size(); ++rank) {
    const StepVote& vote = votes[rank];
    const bool groups_differ = vote.group_hash != first.group_hash;
    if (vote.plan_hash != first.plan_hash) {
      return groups_differ
                 ? Disagreement(rank,
                                "parameter groups (settings, what is in them, what is frozen) of",
                                absl::Hex(vote.group_hash), absl::Hex(first.group_hash))
                 : Disagreement(rank, "the plan", absl::Hex(vote.plan_hash),
                                absl::Hex(first.plan_hash));
    }
    if (vote.step != first.step) return Disagreement(rank, "taken steps", vote.step, first.step);
    // Compared as bits: equal is what gives equal weights.
    if (std::bit_cast<uint64_t>(vote.learning_rate) !=
        std::bit_cast<uint64_t>(first.learning_rate)) {
      return Disagreement(rank, "learning rate", vote.learning_rate, first.learning_rate);
    }
    if (std::bit_cast<uint64_t>(vote.loss_scale) != std::bit_cast<uint64_t>(first.loss_scale)) {
      return Disagreement(rank, "loss scale", vote.loss_scale, first.loss_scale);
    }
    if (groups_differ) {
      return Disagreement(rank, "learning rates of parameter groups that hash to",
                          absl::Hex(vote.group_hash), absl::Hex(first.group_hash));
    }
  }
  return absl::OkStatus();
}

// Of what replicas have of the reduced gradient.
absl::Status CheckReplicas(absl::Span<const StepVote> votes, size_t group_size) {
  for (size_t rank = group_size; rank < votes.size(); ++rank) {
    const StepVote& first = votes[rank % group_size];
    const StepVote& vote = votes[rank];
    const bool equal = vote.non_finite_count == first.non_finite_count &&
                       (vote.non_finite_count > 0 || vote.sum_of_squares == first.sum_of_squares);
    if (equal) continue;
    return absl::InternalError(absl::StrCat(
        "rank ", rank, "'s shard of the reduced gradient has the sum of squares ",
        vote.sum_of_squares, " (", vote.non_finite_count, " elements not finite), that of rank ",
        rank % group_size, ", which holds the same shard, ", first.sum_of_squares, " (",
        first.non_finite_count, "); the groups do not reduce the same gradients"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StepDecision> Decide(absl::Span<const StepVote> votes, size_t group_size) {
  if (absl::Status agreement = CheckAgreement(votes); !agreement.ok()) return agreement;
  if (absl::Status replicas = CheckReplicas(votes, group_size); !replicas.ok()) return replicas;
  StepDecision decision;
  double sum = 0;
  for (const StepVote& vote : votes.first(group_size)) {
    sum += vote.sum_of_squares;
    decision.non_finite_count += vote.non_finite_count;
    decision.first_non_finite = std::min(decision.first_non_finite, vote.first_non_finite);
  }
  decision.norm = std::sqrt(sum);
  decision.take = decision.non_finite_count == 0;
  return decision;
}

std::string NonFiniteCause(absl::Span<const StepVote> votes, const FlatLayout& layout) {
  for (size_t rank = 0; rank < votes.size(); ++rank) {
    if (votes[rank].own_non_finite == kNoElement) continue;
    return absl::StrCat("rank ", rank, "'s gradient of ",
                        layout.spec(static_cast<size_t>(votes[rank].own_non_finite)).name,
                        " is not finite");
  }
  return "the gradient of each rank is finite, what they are reduced to is not";
}

uint64_t GroupHash(const FlatLayout& layout, const ZeroConfig& config) {
  std::string groups = Fingerprint(config.groups);
  for (size_t i = 0; i < layout.size(); ++i) {
    const ParamSpec& spec = layout.spec(i);
    if (spec.group == 0 && !spec.frozen) continue;
    absl::StrAppend(&groups, spec.name, " ", spec.group, spec.frozen ? " frozen\n" : "\n");
  }
  return FnvHash(groups);
}

uint64_t GroupHash(uint64_t groups, absl::Span<const double> learning_rates) {
  return FnvHash({reinterpret_cast<const char*>(learning_rates.data()),
                  learning_rates.size() * sizeof(double)},
                 groups);
}

uint64_t PlanHash(const FlatLayout& layout, const Partition& partition, const ZeroConfig& config) {
  std::string plan = absl::StrCat(
      Fingerprint(config), " world ", partition.world(), " padded ", partition.padded_elements(),
      " tile_chunk ", partition.tile_chunk(), " bucket ", partition.bucket_elements(), "\n");
  for (size_t i = 0; i < layout.size(); ++i) {
    const ParamSpec& spec = layout.spec(i);
    absl::StrAppend(&plan, spec.name, " [", absl::StrJoin(spec.shape, ","), "] ", spec.unit, " ",
                    spec.group, spec.frozen ? " frozen " : " ", spec.tied_to, "\n");
  }
  return FnvHash(plan);
}

}  // namespace rz
