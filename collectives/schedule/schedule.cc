#include "collectives/schedule/schedule.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rz {

Format Schedule::FormatOf(BlockRef ref) const {
  if (ref.place == Place::kScratch && ref.index >= wire_slots) return Format::kAccumulator;
  return Format::kWire;
}

void Schedule::Append(Schedule next) {
  // Accumulator slots follow the wire slots, so their numbers move where the wire slots grow.
  const int32_t slots = std::max(wire_slots, next.wire_slots);
  const auto renumber = [slots](int32_t old_wire_slots, std::vector<Round>& rounds) {
    const auto move = [&](BlockRef& ref) {
      if (ref.place == Place::kScratch && ref.index >= old_wire_slots) {
        ref.index += slots - old_wire_slots;
      }
    };
    for (Round& round : rounds) {
      for (Transfer& transfer : round.transfers) move(transfer.ref);
      for (LocalStep& step : round.local) {
        move(step.dst);
        move(step.a);
        move(step.b);
      }
    }
  };
  renumber(wire_slots, rounds);
  renumber(next.wire_slots, next.rounds);
  std::move(next.rounds.begin(), next.rounds.end(), std::back_inserter(rounds));
  wire_slots = slots;
  accumulator_slots = std::max(accumulator_slots, next.accumulator_slots);
  lane_slots = std::max(lane_slots, next.lane_slots);
  unsliced |= next.unsliced;
  equal_blocks |= next.equal_blocks;
}

std::string ToString(BlockRef ref) {
  switch (ref.place) {
    case Place::kInput:
      return absl::StrCat("input[", ref.index, "]");
    case Place::kOutput:
      return absl::StrCat("output[", ref.index, "]");
    case Place::kScratch:
      return absl::StrCat("scratch[", ref.index, "]");
    case Place::kLaneSlot:
      return absl::StrCat("lane_slot[", ref.index, "]");
  }
  return "nowhere";
}

std::string ToString(const Transfer& transfer) {
  const auto what = [&] {
    return transfer.blocks == 1
               ? absl::StrCat("block ", transfer.block)
               : absl::StrCat(transfer.blocks, " blocks from ", transfer.block, " on");
  };
  switch (transfer.kind) {
    case TransferKind::kSend:
      return absl::StrCat("send ", what(), " to rank ", transfer.peer, " from ",
                          ToString(transfer.ref));
    case TransferKind::kRecv:
      return absl::StrCat("recv ", what(), " from rank ", transfer.peer, " into ",
                          ToString(transfer.ref));
    case TransferKind::kSignal:
      return absl::StrCat("signal rank ", transfer.peer);
    case TransferKind::kAwait:
      return absl::StrCat("await rank ", transfer.peer);
  }
  return "nothing";
}

std::string ToString(const LocalStep& step) {
  const auto text = [&](const char* verb) {
    return absl::StrCat(verb, " block ", step.block, ": ", ToString(step.dst), " <- ",
                        ToString(step.a));
  };
  switch (step.kind) {
    case LocalKind::kCopy:
      return text("copy");
    case LocalKind::kWiden:
      return text("widen");
    case LocalKind::kReduce:
      return absl::StrCat(text("reduce"), ", ", ToString(step.b));
    case LocalKind::kReduceFinish:
      return absl::StrCat(text("reduce and finish"), ", ", ToString(step.b));
    case LocalKind::kFinish:
      return text("finish");
  }
  return "nothing";
}

std::ostream& operator<<(std::ostream& os, Format format) {
  return os << (format == Format::kWire ? "wire" : "accumulator");
}

}  // namespace rz
