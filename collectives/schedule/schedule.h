// A collective as data: what one rank does, in rounds.
//
// A schedule moves blocks and does not know how long they are. The data of a collective is cut into
// lanes, and each lane into blocks, one a rank or (Schedule::one_block) a single one; every lane
// runs the same schedule on its own blocks, so one schedule a (collective, algorithm, world, rank)
// serves every count, dtype and slicing. Pipelining is nothing but several lanes under way.
//
// A round: all its transfers are in flight together; when all have completed, its local steps run
// in order; then comes the next round. Memory that a transfer of the round writes is not touched by
// another transfer of that round. Messages between two ranks of one lane match in order.
//
// How many elements a step is about. Block b of the layout has as many as the layout says, in the
// v variants any number, also none. Where a collective has two layouts (all_to_all: block j of the
// input goes to rank j, block j of the output comes from rank j), a transfer follows the layout of
// the buffer that `ref` names and a local step either, since they agree on what it copies; a
// schedule that also uses scratch needs all blocks equal (Schedule::equal_blocks). A message of no
// elements is left out by both sides, a local step on a block of none too; signals always travel.
//
// premul_sum. A rank's input is multiplied by the factor of the call, the same on all ranks, at the
// moment it is widened into the accumulator for its first addition; nothing travels multiplied
// before that, so no rounding is added. Local steps say which operands are still inputs
// (a_is_input, b_is_input); other ops ignore that. No schedule differs by op.
//
// Algorithms for ranks that share memory read a peer's blocks in place and need a place of their
// own, and a hierarchical collective is the Append of one over the ranks of a host and one over
// hosts with peers renumbered: both belong in this directory, beside the others.
//
// verifier.h proves a set of schedules right. docs/decisions/0002-schedules-as-rounds.md says why.
#ifndef RINGZERO_COLLECTIVES_SCHEDULE_SCHEDULE_H_
#define RINGZERO_COLLECTIVES_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace rz {

// In what dtype a block lies in memory and travels: the caller's, or the one sums are kept in.
enum class Format : uint8_t { kWire, kAccumulator };

enum class Place : uint8_t {
  kInput,     // the caller's send buffer; index is the block; never written
  kOutput,    // the caller's receive buffer; index is the block
  kScratch,   // a slot of the lane's own scratch, as large as the largest block; index is the slot
  kLaneSlot,  // a slot of scratch for all blocks of a lane, packed in order; index is the slot
};

struct BlockRef {
  Place place = Place::kInput;
  int32_t index = 0;

  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};

enum class TransferKind : uint8_t {
  kSend,    // ref is read
  kRecv,    // ref is written
  kSignal,  // a message of no bytes
  kAwait,   // its arrival
};

constexpr bool IsData(TransferKind kind) {
  return kind == TransferKind::kSend || kind == TransferKind::kRecv;
}
constexpr bool IsOutgoing(TransferKind kind) {
  return kind == TransferKind::kSend || kind == TransferKind::kSignal;
}

// A message may carry a run of `blocks` pieces of memory that stand one after another:
//   input, output: blocks [block, block + blocks) of the caller's buffer, which have no gaps;
//     ref.index is `block`. Needs Schedule::unsliced; never goes past the last block.
//   scratch: one slot travels as the elements of `block`; a run as whole slots, padding included,
//     so both sides name slots. They hold block, block + 1, ..., modulo the number of blocks.
//   lane slots: whole lanes, the inputs of the ranks block, block + 1, ..., modulo the world.
struct Transfer {
  TransferKind kind = TransferKind::kSend;
  int32_t peer = 0;
  int32_t block = 0;  // the first; unused by signals
  BlockRef ref;
  int32_t blocks = 1;

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

enum class LocalKind : uint8_t {
  kCopy,          // dst <- a, same format; nothing where both are the same memory
  kWiden,         // dst (accumulator) <- a (wire), exact
  kReduce,        // dst <- op(a, b); computed in the accumulator, rounded once where dst is wire
  kReduceFinish,  // dst (wire) <- op(a, b), for averages divided by the world, then rounded once
  kFinish,        // dst (wire) <- a (an input): a reduction over a world of one. A copy, but for
                  // premul_sum, which multiplies and rounds
};

// b is always wire; a is the partial result of the ranks before b in the order of summation. What
// is still some rank's input as it was given is said to be so: premul_sum multiplies it. a of
// kWiden and kFinish always is. In a lane slot the step is on `block` within the slot.
struct LocalStep {
  LocalKind kind = LocalKind::kCopy;
  int32_t block = 0;
  BlockRef dst;
  BlockRef a;
  BlockRef b;
  bool a_is_input = false;
  bool b_is_input = true;

  friend bool operator==(const LocalStep&, const LocalStep&) = default;
};

struct Round {
  std::vector<Transfer> transfers;
  std::vector<LocalStep> local;

  friend bool operator==(const Round&, const Round&) = default;
};

struct Schedule {
  std::vector<Round> rounds;

  // Scratch slots of a lane, each as large as the largest block, at one stride on all ranks: those
  // in wire format come first, so that their numbers are one sequence.
  int32_t wire_slots = 0;
  int32_t accumulator_slots = 0;

  // Slots as large as a lane, in wire format, without gaps between them.
  int32_t lane_slots = 0;

  // Runs of blocks of input or output travel as they lie, so a lane must be a whole tile.
  bool unsliced = false;

  // The lane has one block, not one a rank.
  bool one_block = false;

  // All blocks of all ranks must have the same number of elements.
  bool equal_blocks = false;

  // Format of what `ref` names: all but the accumulator slots of scratch are wire.
  Format FormatOf(BlockRef ref) const;

  // Appends the rounds of `next`, which cuts lanes into the same blocks. Scratch is shared: what
  // `next` expects there it writes first.
  void Append(Schedule next);

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

constexpr BlockRef Input(int32_t block) { return {Place::kInput, block}; }
constexpr BlockRef Output(int32_t block) { return {Place::kOutput, block}; }
constexpr BlockRef Scratch(int32_t slot) { return {Place::kScratch, slot}; }
constexpr BlockRef LaneSlot(int32_t slot) { return {Place::kLaneSlot, slot}; }

// "recv block 3 from rank 1 into scratch[0]"; for errors and failing tests.
std::string ToString(BlockRef ref);
std::string ToString(const Transfer& transfer);
std::string ToString(const LocalStep& step);
std::ostream& operator<<(std::ostream& os, Format format);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_SCHEDULE_H_
