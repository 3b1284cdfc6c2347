#include "collectives/schedule/claim.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

bool IsReduction(Goal goal) {
  return goal == Goal::kReduceScatter || goal == Goal::kAllReduce || goal == Goal::kReduce;
}

// As claimed, in Order::kCanonical.
SymbolicValue Expected(const Claim& claim, int32_t rank, int32_t world, bool one_block,
                       int32_t block) {
  SymbolicValue value;
  value.block = block;
  if (IsReduction(claim.goal)) {
    const int32_t owner = one_block ? claim.root : block;
    for (int32_t i = 1; i <= world; ++i) value.addends.push_back((owner + i) % world);
    value.roundings = claim.partials == Format::kWire ? world - 1 : world > 1 ? 1 : 0;
    value.finished = true;
    value.multiplied = true;
    return value;
  }
  switch (claim.goal) {
    case Goal::kBroadcast:
    case Goal::kScatter:
      value.addends = {claim.root};
      break;
    case Goal::kAllToAll:
      value.block = rank;
      value.addends = {block};
      break;
    default:
      value.addends = {block};
  }
  return value;
}

bool HoldsEveryRankOnce(std::vector<int32_t> addends, int32_t world) {
  std::sort(addends.begin(), addends.end());
  for (int32_t rank = 0; rank < world; ++rank) {
    if (static_cast<size_t>(rank) >= addends.size() || addends[rank] != rank) return false;
  }
  return static_cast<int32_t>(addends.size()) == world;
}

}  // namespace

int32_t BlocksOf(const Claim& claim, int32_t world, bool one_block) {
  if (claim.goal == Goal::kBarrier) return 0;
  return one_block ? 1 : world;
}

bool HasInput(const Claim& claim, int32_t rank, int32_t block) {
  switch (claim.goal) {
    case Goal::kAllGather:
    case Goal::kGather:
      return block == rank;
    case Goal::kBroadcast:
    case Goal::kScatter:
      return rank == claim.root;
    default:
      return true;
  }
}

bool HasOutput(const Claim& claim, int32_t rank, int32_t block) {
  switch (claim.goal) {
    case Goal::kReduceScatter:
    case Goal::kScatter:
      return block == rank;
    case Goal::kReduce:
    case Goal::kGather:
      return rank == claim.root;
    default:
      return true;
  }
}

bool IsInPlace(const Claim& claim, int32_t rank, int32_t block) {
  switch (claim.goal) {
    case Goal::kAllReduce:
      return claim.in_place;
    case Goal::kReduceScatter:
    case Goal::kAllGather:
      return claim.in_place && block == rank;
    case Goal::kBroadcast:
      return rank == claim.root;
    case Goal::kReduce:
      return claim.in_place && rank == claim.root;
    case Goal::kGather:
    case Goal::kScatter:
      return claim.in_place && rank == claim.root && block == rank;
    case Goal::kBarrier:
    case Goal::kAllToAll:
      return false;
  }
  return false;
}

absl::Status CheckResult(const Claim& claim, int32_t rank, int32_t world, bool one_block,
                         int32_t block, const SymbolicValue& found) {
  SymbolicValue expected = Expected(claim, rank, world, one_block, block);
  if (found == expected) return absl::OkStatus();
  std::string wanted = ToString(expected);
  if (IsReduction(claim.goal) && claim.order == Order::kAny) {
    expected.addends = found.addends;
    expected.roundings = found.roundings;
    if (found == expected && HoldsEveryRankOnce(found.addends, world) &&
        found.roundings <= claim.most_roundings) {
      return absl::OkStatus();
    }
    wanted = absl::StrCat("block ", block, " (wire): every rank once; at most ",
                          claim.most_roundings, " roundings; multiplied; finished");
  }
  return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " of ", world, " ends with {",
                                                    ToString(found), "}, claimed was {", wanted,
                                                    "}"));
}

}  // namespace rz
