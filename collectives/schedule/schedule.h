// A collective as data: what one rank does, in rounds.
//
// A schedule moves blocks and does not know how long they are. The data of a collective is cut into
// lanes, and each lane into blocks, one a rank (a broadcast has one block); every lane runs the
// same schedule on its own blocks, so one schedule a (collective, algorithm, world, rank) serves
// every count, dtype and slicing. Pipelining is nothing but several lanes under way.
//
// A round: all its transfers are in flight together; when all have completed, its local steps run
// in order; then comes the next round. Memory that a transfer of the round writes is not touched by
// another transfer of that round. Messages between two ranks of one lane match in order. A block of
// no elements is left out by both sides, its local steps too; signals always travel.
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
  kInput,    // the caller's send buffer; index is the block; never written
  kOutput,   // the caller's receive buffer; index is the block
  kScratch,  // a slot of the lane's own scratch; index is the slot
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

struct Transfer {
  TransferKind kind = TransferKind::kSend;
  int32_t peer = 0;
  int32_t block = 0;  // says how many elements; unused by signals
  BlockRef ref;
};

enum class LocalKind : uint8_t {
  kCopy,          // dst <- a, same format; nothing where both are the same memory
  kWiden,         // dst (accumulator) <- a (wire), exact
  kReduce,        // dst <- op(a, b); computed in the accumulator, rounded once where dst is wire
  kReduceFinish,  // dst (wire) <- op(a, b), for averages divided by the world, then rounded once
};

// b is always wire; a is the partial result of the ranks before b in the order of summation.
struct LocalStep {
  LocalKind kind = LocalKind::kCopy;
  int32_t block = 0;
  BlockRef dst;
  BlockRef a;
  BlockRef b;
};

struct Round {
  std::vector<Transfer> transfers;
  std::vector<LocalStep> local;
};

struct Schedule {
  std::vector<Round> rounds;

  // Scratch slots of a lane, each as large as the largest block: those in wire format come first.
  int32_t wire_slots = 0;
  int32_t accumulator_slots = 0;

  // Format of what `ref` names: input and output are wire, scratch is what its slot is.
  Format FormatOf(BlockRef ref) const;

  // Appends the rounds of `next`. Scratch is shared: what `next` expects there it writes first.
  void Append(Schedule next);
};

constexpr BlockRef Input(int32_t block) { return {Place::kInput, block}; }
constexpr BlockRef Output(int32_t block) { return {Place::kOutput, block}; }
constexpr BlockRef Scratch(int32_t slot) { return {Place::kScratch, slot}; }

// "recv block 3 from rank 1 into scratch[0]"; for errors and failing tests.
std::string ToString(BlockRef ref);
std::string ToString(const Transfer& transfer);
std::string ToString(const LocalStep& step);
std::ostream& operator<<(std::ostream& os, Format format);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SCHEDULE_SCHEDULE_H_
