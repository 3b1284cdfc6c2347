// GatheredUnits: the whole parameters of the units that a model is about to use in stage 3; in the
// other stages every unit is whole at all times, and calls for it do nothing.
//
// A unit is gathered, its frozen parameters behind the others, into a buffer of a pool that grows
// to what the program holds at once, but not beyond max_live_parameters: the one it had last, or
// the smallest free one it fits in. With the same calls at every step the pool grows in the first
// one only. What a buffer is given back for depends on the pass:
//
//   forward     let go of after it, to be gathered again for backward (3P on the wire); kept for
//               backward within max_reuse_distance (all of them: 2P), as always the last unit is
//   backward    let go of
//   evaluation  let go of; between steps only
//
// A unit that uses parameters tied to those of another is gathered with that one: its buffer is let
// go of when none of its users needs it any more. A unit whose parameters others use is kept from
// forward to backward, so that a step gathers it once, whatever is prefetched.
//
// Units of at most param_persistence_threshold elements have whole buffers of their own for good,
// gathered after each step's update; after shards have been written from outside, before the next
// use too.
//
// Collective: all ranks start the same gathers in the same order among their other collectives.
// Threads: the optimizer's.
#ifndef RINGZERO_OPTIMIZER_GATHERED_UNITS_H_
#define RINGZERO_OPTIMIZER_GATHERED_UNITS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/partition.h"
#include "optimizer/model_state.h"
#include "optimizer/step_timeline.h"
#include "optimizer/step_trace.h"
#include "optimizer/zero_config.h"

namespace rz {

// What parameters are used for.
enum class Pass : uint8_t { kForward, kBackward, kEvaluation };

class GatheredUnits {
 public:
  // All arguments outlive it. `state` is filled in before the first gather.
  GatheredUnits(Communicator* communicator, const FlatLayout* layout, const Partition* partition,
                const ZeroConfig* config, const ModelState* state, StepTimeline* timeline);

  // Buffers of the units that are always whole.
  //   ResourceExhausted  no memory
  absl::Status AllocatePersistent();

  // Takes room for a unit that is to be started next; nothing where it is held. Local.
  //   InvalidArgument     there is no such unit
  //   FailedPrecondition  max_live_parameters does not allow it beside the units that are held; the
  //                       message names them
  //   ResourceExhausted   no memory
  absl::Status Reserve(size_t unit);

  // Starts gathering a unit that has room; nothing where it is whole or on its way.
  //   the communicator's first cause
  absl::Status Start(size_t unit);

  // Deals with gathers that are done. The first that failed.
  absl::Status Poll();

  // With the units it needs.
  bool IsWhole(size_t unit) const;

  // It has been started, and is not whole.
  bool IsOnItsWay(size_t unit) const { return units_[unit].used && !IsWhole(unit); }

  // It is not to be gathered for `pass`, after a forward pass if that is backward.
  bool IsHereFor(size_t unit, Pass pass) const {
    return !sharded_ || units_[unit].persistent || (pass == Pass::kBackward && units_[unit].kept);
  }

  // An operation that brings a unit; null where none does.
  Operation* awaited(size_t unit);

  // The model has used the unit in `pass`; nothing where it was not gathered.
  //   InvalidArgument     there is no such unit
  //   FailedPrecondition  it is still being gathered
  absl::Status Release(size_t unit, Pass pass);

  // The parameters are about to change: nothing that was gathered is valid any more.
  //   FailedPrecondition  a unit is still being gathered
  absl::Status Invalidate();

  // The buffers of units that are always whole do not have what the shards have, or have it again.
  // Requires that nothing is on its way.
  void SetPersistent(bool stale);

  // Waits for nothing, and so needs a failed communicator: ends operations under way.
  void Abandon();

  //   InvalidArgument     there is no such parameter
  //   FailedPrecondition  its unit is not whole; names the parameter
  absl::Status CheckParameter(size_t index) const;

  // Address of a parameter; null where its unit is not whole.
  std::byte* ParameterAt(size_t index) const;

  // Address of a flat element in a unit that is always whole; null where it is none.
  void* PersistentAt(int64_t flat_index) const;

  // Elements all ranks together gather in a step of so many micro-steps that begins now, padding
  // included. What is frozen is gathered where its unit is, and never after a step.
  int64_t ElementsGatheredAStep(int64_t micro_steps) const;

 private:
  enum class State : uint8_t {
    kReleased,
    kReserved,  // there is room, and nothing in it
    kStale,     // likewise, of one that is to be always whole
    kGathering,
    kWhole,
  };
  struct Unit {
    State state = State::kReleased;
    bool persistent = false;
    bool kept = false;  // from forward to backward
    bool used = false;  // started, and not let go of
    int users = 0;      // of its buffer: itself and those that need it, as far as they are used
    std::vector<size_t> needs;  // the units that hold what its parameters are tied to, and itself
    size_t buffer = SIZE_MAX;   // the one it has or had last, in pool_ or persistent_
    std::array<std::optional<Operation>, 2> operations;  // of its trained and frozen parts

    bool TakesPool() const { return !persistent && state != State::kReleased; }
  };
  struct Pooled {
    CommunicatorBuffer buffer;
    int64_t elements = 0;
    bool taken = false;
  };

  static StepPlace PlaceOf(size_t unit) { return {.unit = static_cast<int32_t>(unit)}; }
  absl::Status CheckUnit(size_t unit) const;
  // Marks the units that are kept because they are used again soon.
  void KeepLast();
  bool IsHere(size_t unit) const { return !sharded_ || units_[unit].state == State::kWhole; }
  std::byte* BufferOf(const Unit& unit) const;
  absl::Status StartOne(size_t unit);
  // One user less.
  void LetGo(size_t unit);
  absl::StatusOr<std::optional<Operation>> StartPart(Range flat, std::byte* to);
  // Of a flat element in the unit's buffer, in elements.
  int64_t PlaceInUnit(size_t unit, int64_t flat_index) const;
  absl::StatusOr<CommunicatorBuffer> Allocate(int64_t elements) const;
  // For `unit`, which `user` needs: it is to be held beside what else that needs, whatever the
  // limit.
  absl::StatusOr<size_t> TakeBuffer(size_t unit, size_t user);
  absl::Status TooManyLive(size_t unit) const;

  Communicator* communicator_;
  const FlatLayout* layout_;
  const Partition* partition_;
  const ZeroConfig* config_;
  const ModelState* state_;
  StepTimeline* timeline_;
  const bool sharded_;
  std::vector<Unit> units_;
  std::vector<Pooled> pool_;
  std::vector<CommunicatorBuffer> persistent_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_GATHERED_UNITS_H_
