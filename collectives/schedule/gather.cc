// Ranks are numbered from the root: v = (rank - root) mod N.
//
// Binomial: the subtree of v is v .. v + size - 1, where size is the lowest one bit of v (for the
// root N), cut off at N; its children are v + d for d = 1, 2, 4, ... < size. Slot i of a rank holds
// the block of the rank i after it, so that the blocks of every subtree are one run.
#include "collectives/schedule/gather.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/schedule/rank_arithmetic.h"

namespace rz {
namespace {

LocalStep Copy(int32_t block, BlockRef dst, BlockRef a) {
  return {LocalKind::kCopy, block, dst, a, {}};
}

struct Subtree {
  int32_t parent = 0;  // of any rank but the root
  int32_t size = 0;    // with the rank itself

  struct Child {
    int32_t distance;
    int32_t size;
  };
  std::vector<Child> children;  // the largest first: it takes longest
};

Subtree SubtreeOf(int32_t rank, int32_t world, int32_t root) {
  const int32_t position = RankAt(rank, -root, world);
  const int32_t rest = world - position;
  const int32_t reach = position == 0 ? world : position & -position;
  Subtree subtree{RankAt(rank, -(position & -position), world), std::min(reach, rest), {}};
  for (int32_t distance = 1; distance < subtree.size; distance *= 2) {
    subtree.children.insert(subtree.children.begin(),
                            {distance, std::min(distance, rest - distance)});
  }
  return subtree;
}

// One transfer of the root with every other rank, kRootWindow a round.
void AppendRootRounds(Schedule& schedule, TransferKind kind, int32_t world, int32_t root) {
  for (int32_t first = 1; first < world; first += kRootWindow) {
    Round round;
    for (int32_t distance = first; distance < std::min(first + kRootWindow, world); ++distance) {
      const int32_t peer = RankAt(root, distance, world);
      round.transfers.push_back(
          {kind, peer, peer, kind == TransferKind::kSend ? Input(peer) : Output(peer)});
    }
    schedule.rounds.push_back(std::move(round));
  }
}

}  // namespace

void AppendDirectGather(Schedule& schedule, int32_t rank, int32_t world, int32_t root,
                        BlockRef own) {
  if (rank != root) {
    schedule.rounds.push_back({{{TransferKind::kSend, root, rank, own}}, {}});
    return;
  }
  AppendRootRounds(schedule, TransferKind::kRecv, world, root);
  if (own == Output(root)) return;
  if (schedule.rounds.empty()) schedule.rounds.emplace_back();
  schedule.rounds.back().local.push_back(Copy(root, Output(root), own));
}

Schedule DirectGather(int32_t rank, int32_t world, int32_t root) {
  Schedule schedule;
  AppendDirectGather(schedule, rank, world, root, Input(rank));
  return schedule;
}

Schedule DirectScatter(int32_t rank, int32_t world, int32_t root) {
  Schedule schedule;
  if (rank != root) {
    schedule.rounds.push_back({{{TransferKind::kRecv, root, rank, Output(rank)}}, {}});
    return schedule;
  }
  AppendRootRounds(schedule, TransferKind::kSend, world, root);
  if (schedule.rounds.empty()) schedule.rounds.emplace_back();
  schedule.rounds.back().local.push_back(Copy(root, Output(root), Input(root)));
  return schedule;
}

ScheduleCost DirectGatherCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = world > 1 ? 1 : 0;
  cost.messages = world - 1;
  cost.wire_blocks = world - 1;
  cost.copied_blocks = 1;
  return cost;
}

Schedule BinomialGather(int32_t rank, int32_t world, int32_t root) {
  const Subtree subtree = SubtreeOf(rank, world, root);
  const bool leaf = subtree.children.empty();
  Schedule schedule;
  schedule.wire_slots = leaf ? 0 : subtree.size;
  Round receive;
  for (const auto& [distance, size] : subtree.children) {
    const int32_t child = RankAt(rank, distance, world);
    receive.transfers.push_back({TransferKind::kRecv, child, child, Scratch(distance), size});
  }
  if (rank == root) {
    for (int32_t i = 0; i < world; ++i) {
      const int32_t block = RankAt(root, i, world);
      receive.local.push_back(Copy(block, Output(block), i == 0 ? Input(root) : Scratch(i)));
    }
  } else if (!leaf) {
    receive.local.push_back(Copy(rank, Scratch(0), Input(rank)));
  }
  if (rank == root || !leaf) schedule.rounds.push_back(std::move(receive));
  if (rank != root) {
    schedule.rounds.push_back({{{TransferKind::kSend, subtree.parent, rank,
                                 leaf ? Input(rank) : Scratch(0), subtree.size}},
                               {}});
  }
  return schedule;
}

Schedule BinomialScatter(int32_t rank, int32_t world, int32_t root) {
  const Subtree subtree = SubtreeOf(rank, world, root);
  const bool leaf = subtree.children.empty();
  Schedule schedule;
  schedule.wire_slots = leaf ? 0 : subtree.size;
  Round first;
  if (rank == root) {
    for (int32_t i = 0; i < world; ++i) {
      const int32_t block = RankAt(root, i, world);
      first.local.push_back(Copy(block, i == 0 ? Output(root) : Scratch(i), Input(block)));
    }
  } else {
    first.transfers.push_back({TransferKind::kRecv, subtree.parent, rank,
                               leaf ? Output(rank) : Scratch(0), subtree.size});
    if (!leaf) first.local.push_back(Copy(rank, Output(rank), Scratch(0)));
  }
  schedule.rounds.push_back(std::move(first));
  Round send;
  for (const auto& [distance, size] : subtree.children) {
    const int32_t child = RankAt(rank, distance, world);
    send.transfers.push_back({TransferKind::kSend, child, child, Scratch(distance), size});
  }
  if (!leaf) schedule.rounds.push_back(std::move(send));
  return schedule;
}

ScheduleCost BinomialGatherCost(int32_t world) {
  ScheduleCost cost;
  cost.hops = FloorLog2(world);
  cost.messages = CeilLog2(world);
  cost.wire_blocks = world - 1;
  cost.copied_blocks = world;
  return cost;
}

}  // namespace rz
