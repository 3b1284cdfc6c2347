// What one call does with shared memory, lane by lane. Three stages, each of which needs the one
// before of other ranks:
//
//   Offer   copies what others need of this rank's input into its input slot
//   Sum     (all_reduce and reduce of much) reduces this rank's block of all inputs, into its
//           result slot and, where it belongs there, its output
//   Take    makes this rank's output of others' slots and its own input
//
// Others' inputs may also be seen whole: they came with the lines of the call, or lie in memory
// that is shared. Then nothing is offered.
//
// Every reduction is the canonical sum, so no way changes a bit.
#ifndef RINGZERO_COLLECTIVES_SHARED_SHARED_WORK_H_
#define RINGZERO_COLLECTIVES_SHARED_SHARED_WORK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "collectives/lane_layout.h"
#include "collectives/plan.h"
#include "collectives/shard_kernel.h"

namespace rz {

class SharedWork {
 public:
  // The plan stays until the next Reset. Allocates nothing in a world it has seen.
  void Reset(const Plan* plan, int rank, int world, bool sums_by_owner, const std::byte* input,
             std::byte* output);

  // Of this call; null: none. With one, all_reduce sums by owner.
  void UseKernel(ShardKernel* kernel) { kernel_ = kernel; }

  // Results are summed by their owners and then taken. Otherwise everybody sums for itself.
  static bool SumsByOwner(const Plan& plan, int world, size_t slot_bytes);

  // Elements of a lane's block such that a lane fits a slot, or where what is private is fetched
  // (`fetches`: all ranks can), such that the scratch holds it. All ranks come to the same.
  static int64_t SliceElements(const Plan& plan, int world, size_t slot_bytes, bool fetches);
  // Private buffers of this call are fetched, if all ranks can.
  static bool MayFetch(const Plan& plan, int world, size_t slot_bytes);

  // Bytes of the largest input of a rank that others need; those of a rank that gives nothing count
  // as none.
  static size_t LargestInput(const Plan& plan);

  // This rank has something that others need, and needs something of others.
  bool gives() const { return Gives(rank_); }
  bool takes() const { return Takes(rank_); }
  // Rank `rank` does; alike on all ranks.
  bool Gives(int rank) const { return Gives(*plan_, rank); }
  bool Takes(int rank) const;

  void Offer(int64_t lane, std::byte* slot) const;

  // Where the ranks' inputs are: in slots, or whole.
  struct Inputs {
    bool whole = false;
    absl::Span<const std::byte* const> of;  // by rank; the own one is not looked at
    // By rank, where inputs are addresses in other processes; 0: here.
    absl::Span<const int64_t> processes = {};
    // Two slots, for what is fetched of them to be summed.
    std::byte* scratch = nullptr;
    // Of a lane's block, for what goes through the kernel.
    std::byte* kernel_scratch = nullptr;
  };

  // What Sum, Take and the others return: kNone, or what kept the stage from its end: a rank whose
  // process could not be read, or that the function of the reduction failed.
  static constexpr int kNone = -1;
  static constexpr int kFunctionFailed = -2;

  int Sum(int64_t lane, const Inputs& inputs, std::byte* result_slot);

  // `results`: the result slots, after Sum; empty where there is no such stage.
  int Take(int64_t lane, const Inputs& inputs, absl::Span<const std::byte* const> results);

  // all_reduce without slots, in two stages: this rank's block of all inputs, which are whole, into
  // its output; and of the others' outputs their blocks. `processes`: of outputs that are addresses
  // there.
  int SumWhole(int64_t lane, const Inputs& inputs);
  int TakeSums(int64_t lane, absl::Span<std::byte* const> outputs,
               absl::Span<const int64_t> processes) const;

  // Without slots: others' outputs are in reach, whole, by rank; of ranks that take nothing they
  // are not looked at. Push stores this rank's input where it belongs, of all_gather and
  // all_to_all; SumAndPush this rank's share of a reduction of inputs that are whole.
  void Push(int64_t lane, absl::Span<std::byte* const> outputs) const;
  int SumAndPush(int64_t lane, const Inputs& inputs, absl::Span<std::byte* const> outputs);

  // How a call goes by what is in reach of all that need it, for loads and stores or only to be
  // fetched: the inputs of all ranks that give, the outputs of all that take.
  enum class Way : uint8_t { kSlots, kTake, kPush, kSumAndPush, kSumAndTake };
  enum class Reach : uint8_t { kNone, kFetch, kStore };
  static Way WayOf(Collective collective, Reach inputs, Reach outputs);
  size_t input_bytes() const { return InputBytes(*plan_, rank_); }
  size_t output_bytes() const;

  // Of rank `rank` of such a call, for the line; empty where it gives nothing.
  static absl::Span<const std::byte> WholeInput(const Plan& plan, int rank, const void* input);

 private:
  static bool Gives(const Plan& plan, int rank);
  static size_t InputBytes(const Plan& plan, int rank);

  using Position = LaneLayout::Position;

  bool one_block() const { return layout().blocks() == 1; }
  const LaneLayout& layout() const { return plan_->lanes; }
  size_t Bytes(int64_t elements) const { return static_cast<size_t>(elements) * element_bytes_; }
  size_t InputOffset(Position at, int32_t block) const;
  size_t OutputOffset(Position at, int32_t block) const;
  int64_t CountOf(Position at, int32_t block) const { return layout().Block(at, block).count; }

  // Block `block` of `rank`'s input.
  const std::byte* BlockOf(const Inputs& inputs, int rank, Position at, int32_t block) const;
  // 0: what is `rank`'s is in reach of loads.
  int64_t ProcessOf(absl::Span<const int64_t> processes, int rank) const;
  int Reduce(const Inputs& inputs, Position at, int32_t block, std::byte* to, bool stream);
  // The same of this rank's own block, summed into `at_hand` and through the kernel; `at_hand` may
  // be anywhere.
  int ReduceOwn(const Inputs& inputs, Position at, std::byte* at_hand, bool stream);
  // Where the own block is summed to: `output` itself, or scratch for the kernel.
  std::byte* AtHand(const Inputs& inputs, std::byte* output) const {
    return kernel_ != nullptr ? inputs.kernel_scratch : output;
  }
  void Copy(std::byte* to, const std::byte* from, int64_t elements) const;
  // The same into an output.
  void CopyOut(std::byte* to, const std::byte* from, int64_t elements) const;
  // The same of a block of `rank`'s input, wherever it is; false: it cannot be read.
  bool TakeBlock(std::byte* to, const Inputs& inputs, int rank, Position at, int32_t block) const;

  const Plan* plan_ = nullptr;
  int rank_ = 0;
  int world_ = 1;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  ShardKernel* kernel_ = nullptr;
  size_t element_bytes_ = 1;
  bool streams_ = false;                   // outputs are written past the caches
  bool offers_own_block_ = false;          // others sum it too
  std::vector<const std::byte*> sources_;  // of a reduction, in its order
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SHARED_SHARED_WORK_H_
