// The one agreed message of a step: what each rank says before the commit point, and what all ranks
// decide from it. Every rank decides from the same bytes, so all take the step or none does.
#ifndef RINGZERO_OPTIMIZER_STEP_CONTROL_H_
#define RINGZERO_OPTIMIZER_STEP_CONTROL_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/partition.h"
#include "optimizer/zero_config.h"

namespace rz {

inline constexpr int64_t kNoElement = std::numeric_limits<int64_t>::max();

// One rank's part of the message. Travels as 8-byte words between equal builds.
struct StepVote {
  double sum_of_squares = 0;              // of this rank's chunks of the reduced gradient
  int64_t non_finite_count = 0;           // among them
  int64_t first_non_finite = kNoElement;  // lowest flat index among those
  uint64_t plan_hash = 0;
  int64_t step = 0;  // steps taken before this one
  double learning_rate = 0;
  double loss_scale = 1;
  int64_t own_non_finite = kNoElement;  // first parameter it announced something not finite for
  uint64_t group_hash = 0;              // see GroupHash
};
inline constexpr int64_t kVoteWords = sizeof(StepVote) / sizeof(int64_t);
static_assert(sizeof(StepVote) == 72, "a vote has no padding");

struct StepDecision {
  bool take = false;
  double norm = 0;
  int64_t non_finite_count = 0;
  int64_t first_non_finite = kNoElement;
};

// votes[r] is rank r's; at least one. Squares are added in the order of ranks, in the first of the
// groups of `group_size` ranks: all groups have the same gradient.
//   FailedPrecondition  ranks disagree on groups, plan, step, learning rate or loss scale; names
//                       the first that differs from rank 0, and both values
//   Internal            a rank's shard of the gradient differs from that of the first group
absl::StatusOr<StepDecision> Decide(absl::Span<const StepVote> votes, size_t group_size);
inline absl::StatusOr<StepDecision> Decide(absl::Span<const StepVote> votes) {
  return Decide(votes, votes.size());
}

// Who brought what is not finite: "rank 2's gradient of layer4.bias is not finite".
std::string NonFiniteCause(absl::Span<const StepVote> votes, const FlatLayout& layout);

// Hash of the parameter groups: their settings, which parameters are of them,
// and which are frozen. A part of the plan
// that has a word of its own in votes, so that ranks which differ in it can be told so.
uint64_t GroupHash(const FlatLayout& layout, const ZeroConfig& config);

// The same with the groups' learning rates in a step. Allocates nothing.
uint64_t GroupHash(uint64_t groups, absl::Span<const double> learning_rates);

// Hash of everything that must be alike on all ranks.
uint64_t PlanHash(const FlatLayout& layout, const Partition& partition, const ZeroConfig& config);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_STEP_CONTROL_H_
