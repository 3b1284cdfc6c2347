// 1. Every rank enters its next round: sends are read and put on their channel (source,
//    destination), receives are put on theirs; conflicts within the round are looked for.
// 2. Channels match their first send with their first receive, as the transport does; a matched
//    transfer is complete on both sides. With eager sends the sender does not wait for that.
// 3. A rank whose transfers have all completed runs the local steps and enters the next round.
// 4. When nobody moves any more, ranks that are not through are deadlocked: posting only ever
//    enables others, so the order in which ranks were tried does not matter.
// 5. The outputs are compared with the claim.
#include "collectives/schedule/verifier.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/schedule/symbolic_memory.h"
#include "collectives/schedule/symbolic_value.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

// Ranks whose start is known to have happened before. Kept for barriers only; empty otherwise.
using Knowledge = std::vector<bool>;

struct PostedSend {
  const Transfer* transfer;
  std::vector<SymbolicValue> values;  // none of a signal
  Knowledge knowledge;
};

// One side is empty after matching, and there are world * world channels: vectors, which cost
// nothing while empty.
struct Channel {
  std::vector<PostedSend> sends;
  std::vector<const Transfer*> receives;
};

// Both sides of a message count its elements alike, whatever the length of the blocks.
bool SameLength(const Transfer& send, const Transfer& receive) {
  const auto buffer = [](Place place) { return place == Place::kInput || place == Place::kOutput; };
  const auto lane = [](Place place) { return place == Place::kLaneSlot; };
  const Place from = send.ref.place;
  const Place to = receive.ref.place;
  if (send.blocks != receive.blocks || lane(from) != lane(to)) return false;
  return send.blocks == 1 || buffer(from) == buffer(to);
}

struct RankState {
  RankState(const Schedule& schedule, int32_t rank, int32_t world, const Claim& claim)
      : schedule(&schedule), memory(schedule, rank, world, claim) {
    if (claim.goal != Goal::kBarrier) return;
    knowledge.assign(world, false);
    knowledge[rank] = true;
  }

  bool done() const { return round == schedule->rounds.size(); }

  const Schedule* schedule;
  SymbolicMemory memory;
  Knowledge knowledge;
  size_t round = 0;
  bool entered = false;
  size_t outstanding = 0;
};

class Verifier {
 public:
  Verifier(absl::Span<const Schedule> schedules, const Claim& claim)
      : world_(static_cast<int32_t>(schedules.size())),
        claim_(claim),
        channels_(schedules.size() * schedules.size()) {
    for (int32_t rank = 0; rank < world_; ++rank) {
      ranks_.emplace_back(schedules[rank], rank, world_, claim);
    }
  }

  absl::Status Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int32_t rank = 0; rank < world_; ++rank) {
        RZ_ASSIGN_OR_RETURN(const bool advanced, Advance(rank));
        moved |= advanced;
      }
    }
    RZ_RETURN_IF_ERROR(CheckAllDone());
    for (int32_t rank = 0; rank < world_; ++rank) RZ_RETURN_IF_ERROR(CheckOutputs(rank));
    return absl::OkStatus();
  }

 private:
  Channel& ChannelOf(int32_t source, int32_t destination) {
    return channels_[static_cast<size_t>(source) * world_ + destination];
  }

  absl::Status Wrong(int32_t rank, const std::string& step, const absl::Status& why) const {
    return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " of ", world_, ", round ",
                                                      ranks_[rank].round, ", ", step, ": ",
                                                      why.message()));
  }

  absl::StatusOr<bool> Advance(int32_t rank) {
    RankState& state = ranks_[rank];
    bool moved = false;
    while (!state.done()) {
      if (!state.entered) {
        RZ_RETURN_IF_ERROR(EnterRound(rank));
        moved = true;
      }
      if (state.outstanding > 0) break;
      RZ_RETURN_IF_ERROR(RunLocalSteps(rank));
      ++state.round;
      state.entered = false;
      moved = true;
    }
    return moved;
  }

  absl::Status EnterRound(int32_t rank) {
    RankState& state = ranks_[rank];
    const Round& round = state.schedule->rounds[state.round];
    RZ_RETURN_IF_ERROR(CheckConflicts(rank, round));
    state.entered = true;
    state.outstanding = 0;
    for (const Transfer& transfer : round.transfers) {
      if (claim_.sends == Sends::kRendezvous || !IsOutgoing(transfer.kind)) ++state.outstanding;
      if (absl::Status status = Post(rank, transfer); !status.ok()) {
        return Wrong(rank, ToString(transfer), status);
      }
    }
    for (const Transfer& transfer : round.transfers) {
      const bool out = IsOutgoing(transfer.kind);
      RZ_RETURN_IF_ERROR(Match(out ? rank : transfer.peer, out ? transfer.peer : rank));
    }
    return absl::OkStatus();
  }

  absl::Status CheckConflicts(int32_t rank, const Round& round) const {
    enum Use : uint8_t { kUnused, kRead, kWritten };
    const SymbolicMemory& memory = ranks_[rank].memory;
    std::vector<Use> uses(memory.cell_count(), kUnused);
    for (const Transfer& transfer : round.transfers) {
      if (!IsData(transfer.kind)) continue;
      const absl::StatusOr<std::vector<SymbolicMemory::Piece>> pieces = memory.PiecesOf(transfer);
      if (!pieces.ok()) return Wrong(rank, ToString(transfer), pieces.status());
      const bool reads = transfer.kind == TransferKind::kSend;
      for (const SymbolicMemory::Piece& piece : *pieces) {
        Use& use = uses[piece.cell];
        if (use == kWritten || (use == kRead && !reads)) {
          return Wrong(rank, ToString(transfer),
                       absl::FailedPreconditionError("another transfer of the round uses it too"));
        }
        use = reads ? kRead : kWritten;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Post(int32_t rank, const Transfer& transfer) {
    RankState& state = ranks_[rank];
    if (transfer.peer < 0 || transfer.peer >= world_ || transfer.peer == rank) {
      return absl::FailedPreconditionError("no such peer");
    }
    if (IsOutgoing(transfer.kind)) {
      PostedSend send{&transfer, {}, state.knowledge};
      if (transfer.kind == TransferKind::kSend) {
        RZ_ASSIGN_OR_RETURN(const auto pieces, state.memory.PiecesOf(transfer));
        for (const SymbolicMemory::Piece& piece : pieces) {
          RZ_ASSIGN_OR_RETURN(SymbolicValue value, state.memory.Read(piece));
          send.values.push_back(std::move(value));
        }
      }
      ChannelOf(rank, transfer.peer).sends.push_back(std::move(send));
      return absl::OkStatus();
    }
    if (transfer.kind == TransferKind::kRecv) {
      RZ_ASSIGN_OR_RETURN(const auto pieces, state.memory.PiecesOf(transfer));
      for (const SymbolicMemory::Piece& piece : pieces) {
        RZ_RETURN_IF_ERROR(state.memory.CheckWritable(piece));
      }
    }
    ChannelOf(transfer.peer, rank).receives.push_back(&transfer);
    return absl::OkStatus();
  }

  absl::Status Match(int32_t source, int32_t destination) {
    Channel& channel = ChannelOf(source, destination);
    const size_t matched = std::min(channel.sends.size(), channel.receives.size());
    for (size_t i = 0; i < matched; ++i) {
      const Transfer& receive = *channel.receives[i];
      if (absl::Status status = Deliver(channel.sends[i], destination, receive); !status.ok()) {
        return Wrong(destination, ToString(receive), status);
      }
      if (claim_.sends == Sends::kRendezvous) --ranks_[source].outstanding;
      --ranks_[destination].outstanding;
    }
    const auto end = static_cast<ptrdiff_t>(matched);
    channel.sends.erase(channel.sends.begin(), channel.sends.begin() + end);
    channel.receives.erase(channel.receives.begin(), channel.receives.begin() + end);
    return absl::OkStatus();
  }

  absl::Status Deliver(const PostedSend& send, int32_t destination, const Transfer& receive) {
    RankState& state = ranks_[destination];
    const bool data = send.transfer->kind == TransferKind::kSend;
    // The two sides of an all_to_all number a message differently; where it lands is checked below.
    const bool same_block = claim_.goal == Goal::kAllToAll || send.transfer->block == receive.block;
    if (data != (receive.kind == TransferKind::kRecv) ||
        (data && (!same_block || !SameLength(*send.transfer, receive)))) {
      return absl::FailedPreconditionError(
          absl::StrCat("its message is another one: ", ToString(*send.transfer)));
    }
    for (size_t rank = 0; rank < send.knowledge.size(); ++rank) {
      if (send.knowledge[rank]) state.knowledge[rank] = true;
    }
    if (!data) return absl::OkStatus();
    RZ_ASSIGN_OR_RETURN(const auto pieces, state.memory.PiecesOf(receive));
    for (size_t i = 0; i < pieces.size(); ++i) {
      RZ_RETURN_IF_ERROR(state.memory.Write(pieces[i], send.values[i]));
    }
    return absl::OkStatus();
  }

  absl::Status RunLocalSteps(int32_t rank) {
    RankState& state = ranks_[rank];
    for (const LocalStep& step : state.schedule->rounds[state.round].local) {
      if (absl::Status status = RunLocalStep(state.memory, step); !status.ok()) {
        return Wrong(rank, ToString(step), status);
      }
    }
    return absl::OkStatus();
  }

  static absl::Status RunLocalStep(SymbolicMemory& memory, const LocalStep& step) {
    RZ_ASSIGN_OR_RETURN(const auto at, memory.PieceOf(step.a, step.block));
    RZ_ASSIGN_OR_RETURN(const SymbolicValue a, memory.Read(at));
    SymbolicValue b;
    if (step.kind == LocalKind::kReduce || step.kind == LocalKind::kReduceFinish) {
      RZ_ASSIGN_OR_RETURN(const auto b_at, memory.PieceOf(step.b, step.block));
      RZ_ASSIGN_OR_RETURN(b, memory.Read(b_at));
    }
    RZ_ASSIGN_OR_RETURN(const SymbolicValue result, Apply(step, a, b, memory.FormatOf(step.dst)));
    RZ_ASSIGN_OR_RETURN(const auto to, memory.PieceOf(step.dst, step.block));
    return memory.Write(to, result);
  }

  absl::Status CheckAllDone() const {
    for (int32_t rank = 0; rank < world_; ++rank) {
      const RankState& state = ranks_[rank];
      if (state.done()) continue;
      std::string waits;
      for (const Transfer& transfer : state.schedule->rounds[state.round].transfers) {
        absl::StrAppend(&waits, waits.empty() ? "" : "; ", ToString(transfer));
      }
      return absl::FailedPreconditionError(
          absl::StrCat("deadlock: rank ", rank, " of ", world_, " never leaves round ", state.round,
                       " (", state.outstanding, " not complete of: ", waits, ")"));
    }
    for (const Channel& channel : channels_) {
      if (channel.sends.empty()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("nobody receives: ", ToString(*channel.sends.front().transfer)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs(int32_t rank) const {
    const RankState& state = ranks_[rank];
    if (claim_.goal == Goal::kBarrier) {
      const auto missing = std::find(state.knowledge.begin(), state.knowledge.end(), false);
      if (missing == state.knowledge.end()) return absl::OkStatus();
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " may leave the barrier before rank ",
                       missing - state.knowledge.begin(), " has come"));
    }
    const bool one_block = state.schedule->one_block;
    for (int32_t block = 0; block < BlocksOf(claim_, world_, one_block); ++block) {
      if (!HasOutput(claim_, rank, block)) continue;
      RZ_ASSIGN_OR_RETURN(const auto piece, state.memory.PieceOf(Output(block), block));
      absl::StatusOr<SymbolicValue> found = state.memory.Read(piece);
      if (!found.ok()) {
        return absl::FailedPreconditionError(
            absl::StrCat("rank ", rank, " of ", world_, " ends: ", found.status().message()));
      }
      RZ_RETURN_IF_ERROR(CheckResult(claim_, rank, world_, one_block, block, *found));
    }
    return absl::OkStatus();
  }

  const int32_t world_;
  const Claim claim_;
  std::vector<RankState> ranks_;
  std::vector<Channel> channels_;
};

}  // namespace

absl::Status VerifySchedules(absl::Span<const Schedule> schedules, const Claim& claim) {
  return Verifier(schedules, claim).Run();
}

}  // namespace rz
