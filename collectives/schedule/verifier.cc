// 1. Every rank enters its next round: sends are read and put on their channel (source,
//    destination), receives are put on theirs; conflicts within the round are looked for.
// 2. Channels match their first send with their first receive, as the transport does; a matched
//    transfer is complete on both sides, which is what the slowest (rendezvous) transport promises.
// 3. A rank whose transfers have all completed runs the local steps and enters the next round.
// 4. When nobody moves any more, ranks that are not through are deadlocked: posting only ever
//    enables others, so the order in which ranks were tried does not matter.
// 5. The outputs are compared with the claim.
#include "collectives/schedule/verifier.h"

#include <algorithm>
#include <cstddef>
#include <optional>
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
  std::optional<SymbolicValue> value;  // unset for a signal
  Knowledge knowledge;
};

// One side is empty after matching, and there are world * world channels: vectors, which cost
// nothing while empty.
struct Channel {
  std::vector<PostedSend> sends;
  std::vector<const Transfer*> receives;
};

bool IsOutgoing(TransferKind kind) {
  return kind == TransferKind::kSend || kind == TransferKind::kSignal;
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
    state.outstanding = round.transfers.size();
    for (const Transfer& transfer : round.transfers) {
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

  // Counts, per piece of memory, the transfers of the round that read and that write it.
  absl::Status CheckConflicts(int32_t rank, const Round& round) {
    std::vector<int32_t> read;
    std::vector<int32_t> written;
    for (const Transfer& transfer : round.transfers) {
      if (transfer.kind == TransferKind::kSignal || transfer.kind == TransferKind::kAwait) continue;
      absl::StatusOr<int32_t> cell = ranks_[rank].memory.CellOf(transfer.ref);
      if (!cell.ok()) return Wrong(rank, ToString(transfer), cell.status());
      const bool clashes = transfer.kind == TransferKind::kSend
                               ? Contains(written, *cell)
                               : Contains(written, *cell) || Contains(read, *cell);
      if (clashes) {
        return Wrong(rank, ToString(transfer),
                     absl::FailedPreconditionError("another transfer of the round uses it too"));
      }
      (transfer.kind == TransferKind::kSend ? read : written).push_back(*cell);
    }
    return absl::OkStatus();
  }

  static bool Contains(const std::vector<int32_t>& cells, int32_t cell) {
    return std::find(cells.begin(), cells.end(), cell) != cells.end();
  }

  absl::Status Post(int32_t rank, const Transfer& transfer) {
    RankState& state = ranks_[rank];
    if (transfer.peer < 0 || transfer.peer >= world_ || transfer.peer == rank) {
      return absl::FailedPreconditionError("no such peer");
    }
    if (IsOutgoing(transfer.kind)) {
      PostedSend send{&transfer, std::nullopt, state.knowledge};
      if (transfer.kind == TransferKind::kSend) {
        RZ_ASSIGN_OR_RETURN(send.value, state.memory.Read(transfer.ref, transfer.block));
      }
      ChannelOf(rank, transfer.peer).sends.push_back(std::move(send));
      return absl::OkStatus();
    }
    if (transfer.kind == TransferKind::kRecv) {
      RZ_RETURN_IF_ERROR(state.memory.CheckWritable(transfer.ref, transfer.block));
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
      --ranks_[source].outstanding;
      --ranks_[destination].outstanding;
    }
    const auto end = static_cast<ptrdiff_t>(matched);
    channel.sends.erase(channel.sends.begin(), channel.sends.begin() + end);
    channel.receives.erase(channel.receives.begin(), channel.receives.begin() + end);
    return absl::OkStatus();
  }

  absl::Status Deliver(const PostedSend& send, int32_t destination, const Transfer& receive) {
    RankState& state = ranks_[destination];
    const bool data = send.value.has_value();
    if (data != (receive.kind == TransferKind::kRecv) ||
        (data && receive.block != send.transfer->block)) {
      return absl::FailedPreconditionError(
          absl::StrCat("its message is another one: ", ToString(*send.transfer)));
    }
    for (size_t rank = 0; rank < send.knowledge.size(); ++rank) {
      if (send.knowledge[rank]) state.knowledge[rank] = true;
    }
    return data ? state.memory.Write(receive.ref, *send.value) : absl::OkStatus();
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
    RZ_ASSIGN_OR_RETURN(SymbolicValue a, memory.Read(step.a, step.block));
    if (step.kind == LocalKind::kCopy) return memory.Write(step.dst, a);
    if (step.kind == LocalKind::kWiden) {
      if (a.format != Format::kWire) return absl::FailedPreconditionError("a is wide already");
      a.format = Format::kAccumulator;
      return memory.Write(step.dst, a);
    }
    RZ_ASSIGN_OR_RETURN(const SymbolicValue b, memory.Read(step.b, step.block));
    RZ_ASSIGN_OR_RETURN(const SymbolicValue sum, Reduce(a, b, memory.FormatOf(step.dst),
                                                        step.kind == LocalKind::kReduceFinish));
    return memory.Write(step.dst, sum);
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
    const int32_t blocks = claim_.goal == Goal::kBroadcast ? 1 : world_;
    for (int32_t block = 0; block < blocks; ++block) {
      if (claim_.goal == Goal::kReduceScatter && block != rank) continue;
      RZ_ASSIGN_OR_RETURN(const SymbolicValue found, state.memory.Read(Output(block), block));
      const SymbolicValue expected = Expected(block);
      if (found == expected) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " of ", world_, " ends with {", ToString(found),
                       "}, claimed was {", ToString(expected), "}"));
    }
    return absl::OkStatus();
  }

  SymbolicValue Expected(int32_t block) const {
    SymbolicValue value;
    value.block = block;
    const bool reduced = claim_.goal == Goal::kReduceScatter || claim_.goal == Goal::kAllReduce;
    if (!reduced || world_ == 1) {
      value.addends = {claim_.goal == Goal::kBroadcast ? claim_.root : block};
      return value;
    }
    for (int32_t i = 1; i <= world_; ++i) value.addends.push_back((block + i) % world_);
    value.roundings = claim_.partials == Format::kAccumulator ? 1 : world_ - 1;
    value.finished = true;
    return value;
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
