// ZeroOptimizer: owns the model states of one rank and steps them together with all other ranks.
//
// A step reduces the gradients bucket by bucket, agrees once with all ranks that the step may be
// taken (the commit point: before it nothing has changed), updates what this rank owns, and brings
// the new working parameters to those who need them. The stage says what is owned: everything
// (ddp), or a shard of the optimizer states (1, naive), of the gradients too (2), of the parameters
// too (3). All give the same bits for the same world.
//
// Gradients. Every rank gives all gradients of its own samples scaled such that the *average over
// ranks* is the mean over all samples:
//
//     local gradient = (sum over local samples of d loss / d parameter) * world / samples of all
//     ranks (in all micro-steps) * loss_scale()
//
// Ranks may hold different numbers of samples, also none. The reduction divides the fp32 sum by the
// world size before its one rounding, so 16-bit sums do not overflow. GradientScale() gives the
// factor without loss_scale(), which is 1 unless the config asks for more.
//
// They are written into views (Grads) before the step, all of them again each time; or announced
// one by one as backward has them (AddGradient), where the config says announce_gradients, and
// always in stages 2 and 3 and with micro-steps. What a rank does not announce is zero. Where ranks
// leave out different ones, AddGradient of stage 2 may wait for others until they are in Step:
// before that no rank may wait for another in any other way, be it by another communicator.
// Announced buckets are reduced while backward goes on: until the end of the step other collectives
// on this communicator would come between them and have no place that is the same on all ranks (in
// stage 3 they have: reductions start at Release alone).
//
// Parameters are views (Params). In stage 3 they are there from Gather to Release of their unit;
// Gather, StartGather and Release are made by all ranks in the same order, and the Release from
// backward closes the unit's gradients. In the other stages these calls are allowed and move
// nothing.
//
// Frozen parameters (ParamSpec::frozen) are initialized, gathered and, in stage 3, sharded as the
// others are. They have no gradient, no states, and nothing of them is sent for a step. A model may
// be all frozen: its steps change nothing, and ranks still agree on them.
//
// A tied parameter (ParamSpec::tied_to) is the one it is tied to, under another name: their views
// are one, so gradients in views are added by the model; announced ones are added up here, in
// float32, whatever their order (of more than two, the order of announcement is the sum's). The
// initializer is asked for the first alone, norm and memory count it once. In stage 3 it is of the
// first's unit, which Gather of the other's brings too; its gradients come before that unit's
// release from backward.
//
// With gather_behind_forward a step ends while new parameters are still on their way: Gather,
// Params and GatheredParams of a unit wait for its own, and whatever begins the next gradients for
// all.
//
// Order of calls: Create; Initialize (all ranks together); then for each step
//
//     forward    for each unit: Gather, compute, Release(kForward)
//     backward   for each unit from the last: Gather, compute and AddGradient, Release(kBackward)
//     EndMicroStep between micro-steps; Step
//
// Threads: one owner thread, the communicator's; where config.progress_thread says so the
// communicator's own thread moves collectives while the owner is not in a call. Nothing is
// allocated in a step that is taken, after the first. After an error that other ranks see too (of a
// collective) the communicator has failed, and every later call returns its first cause; working
// parameters are then unusable.
#ifndef RINGZERO_OPTIMIZER_ZERO_OPTIMIZER_H_
#define RINGZERO_OPTIMIZER_ZERO_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "optimizer/gathered_units.h"
#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/partition.h"
#include "optimizer/memory_report.h"
#include "optimizer/shard_groups.h"
#include "optimizer/step_options.h"
#include "optimizer/step_report.h"
#include "optimizer/step_timeline.h"
#include "optimizer/wire_plan.h"
#include "optimizer/zero_config.h"

namespace rz {

// The factor of the header's formula: for a sum over local samples.
double GradientScale(int world_size, int64_t samples_of_all_ranks);

class ZeroOptimizer {
 public:
  // Fills `values` with the initial fp32 values of parameter `index` (in the order of declaration).
  using Initializer = std::function<void(size_t index, absl::Span<float> values)>;

  // Allocates this rank's states, all zero. Local: no traffic; but with a shard_group_size that
  // makes several groups, collective: the communicator is split. It outlives the optimizer and is
  // deterministic for ddp and ZeRO to give equal bits.
  //   InvalidArgument    a parameter or a config value that cannot be; the message names it
  //   Unimplemented      a stage or dtype this optimizer does not run; a progress thread is asked
  //                      for and the transport cannot have one
  //   ResourceExhausted  no memory; the message says for what
  static absl::StatusOr<std::unique_ptr<ZeroOptimizer>> Create(Communicator* communicator,
                                                               std::vector<ParamSpec> specs,
                                                               ZeroConfig config);

  // The same with groups that have been made, whatever the config says of them. Local.
  static absl::StatusOr<std::unique_ptr<ZeroOptimizer>> Create(ShardGroups ranks,
                                                               std::vector<ParamSpec> specs,
                                                               ZeroConfig config);
  ~ZeroOptimizer();

  // Sets all parameters, on every rank, to what rank 0's `initializer` says (the others' is not
  // called), the optimizer's states to zero, the step count to 0 and the loss scale to its first.
  // Collective. Checks first that all ranks have the same plan: parameters, stage, dtype, world,
  // the optimizer's numbers, buckets.
  //   FailedPrecondition  ranks differ in their plans; the message names one that differs
  //   otherwise           the communicator's first cause
  absl::Status Initialize(const Initializer& initializer);

  // One step, blocking.
  //   FailedPrecondition  before Initialize; or ranks disagree on groups, plan, step count,
  //                       learning rates or loss scale
  //   InvalidArgument     a learning rate that is not finite or negative; both kinds of them, or
  //                       not one a group
  //   OutOfRange          an overflow at the smallest dynamic loss scale, or the last of
  //                       max_skipped_steps in a row; the message has the parameter and, where
  //                       gradients are announced, the rank
  //   otherwise           the communicator's first cause
  absl::StatusOr<StepReport> Step(const StepOptions& options);

  // The non-blocking forms the two above stand on: Start, then Poll until true, then the result.
  // Poll does what is possible without waiting. One activity at a time: FailedPrecondition if
  // another is under way. `initializer` is kept until the activity ends. Start waits where
  // parameters are still being gathered: all ranks have started that.
  absl::Status StartInitialize(Initializer initializer);
  absl::Status StartStep(const StepOptions& options);
  bool Poll();
  absl::Status InitializeResult() const;
  absl::StatusOr<StepReport> StepResult() const;

  const FlatLayout& layout() const;
  const Partition& partition() const;
  const ZeroConfig& config() const;
  int64_t steps_taken() const;

  // Of the next step of a group, by the schedule.
  double learning_rate(size_t group = 0) const;

  // What the gradients of the next step are to be multiplied by.
  double loss_scale() const;

  // Where the program says what it is doing: it enters forward and backward, and may begin a step
  // before its first call here. What the optimizer does on the way it enters itself.
  StepTimeline* timeline();

  // Takes the gradient of parameter `index` in this micro-step: its elements in float32, or as bit
  // patterns of the 16-bit working dtype. Waits where the stage's bucket buffers are all being
  // reduced.
  //   InvalidArgument     there is no such parameter, or it has another number of elements
  //   FailedPrecondition  it is frozen; it was announced before or its unit was released from
  //   backward; the config
  //                       asks for views; before Initialize
  //   otherwise           the communicator's first cause
  absl::Status AddGradient(size_t index, absl::Span<const float> values);
  absl::Status AddGradient(size_t index, absl::Span<const uint16_t> values);

  // Ends a micro-step that is not the step's last; a step may have fewer than the config says. With
  // AccumulationPolicy::kShard collective.
  //   FailedPrecondition  all but the last have ended
  //   otherwise           the communicator's first cause
  absl::Status EndMicroStep();

  // Their non-blocking forms, as above; `values` stay until the activity has ended.
  absl::Status StartAddGradient(size_t index, absl::Span<const float> values);
  absl::Status StartAddGradient(size_t index, absl::Span<const uint16_t> values);
  absl::Status StartEndMicroStep();
  absl::Status GradientResult() const;

  // Brings the parameters of a unit here for use in `pass`; StartGather begins that ahead of use.
  // Evaluation is for passes without backward, between steps.
  //   InvalidArgument     there is no such unit
  //   FailedPrecondition  before Initialize; an evaluation within a step; too many elements at once
  //                       (max_live_parameters)
  //   otherwise           the communicator's first cause
  absl::Status Gather(size_t unit, Pass pass);
  absl::Status StartGather(size_t unit, Pass pass);
  bool IsGathered(size_t unit) const;

  // Begins to gather what follows `unit`, as far as prefetch_bucket_size and max_live_parameters
  // allow: forward's units rise and are followed by backward's, which fall. No gradient may be
  // under way (StartAddGradient): ranks would begin in different orders. Where it fails so does the
  // Gather of what it was to bring.
  void Prefetch(size_t unit, Pass pass);

  // The unit has been used in `pass`. From backward: its gradients not announced are zero.
  //   InvalidArgument     there is no such unit
  //   FailedPrecondition  it is still being gathered
  //   otherwise           the communicator's first cause
  absl::Status Release(size_t unit, Pass pass);

  // Views of parameter `index` as it is used by the model, in the working dtype, and of its
  // gradient in that of communication: T is float for float32, uint16_t (bit patterns) for 16-bit
  // types. Empty where the stage does not have it: parameters that are not gathered, or that a
  // failure has left on their way, gradients that are announced and those of what is frozen.
  template <typename T>
  absl::Span<T> Params(size_t index) const {
    return View<T>(parameter_at(index), index);
  }
  template <typename T>
  absl::Span<T> Grads(size_t index) const {
    return View<T>(gradient_at(index), index);
  }

  // The same, which says why there is none.
  //   InvalidArgument     there is no such parameter
  //   FailedPrecondition  its unit is not gathered; names the parameter
  template <typename T>
  absl::StatusOr<absl::Span<T>> GatheredParams(size_t index) const {
    if (absl::Status status = CheckGathered(index); !status.ok()) return status;
    return Params<T>(index);
  }

  // Makes all views of gradients zero, for models that add to them.
  void ZeroGradients();

  // The fp32 states this rank owns, in shard order (ddp: flat order); for checkpoints and tests.
  // With float32 the master is the working parameters and is not shown here: in stage 3 they are
  // this rank's shard (parameter_shard, empty in the others), before that spread over all.
  // `index` is below StateCount(config().optimizer).
  absl::Span<const float> optimizer_state(size_t index) const;
  absl::Span<const float> master() const;
  absl::Span<const std::byte> parameter_shard() const;

  // The same, to be written between steps, by all ranks, when saved states are loaded; then Resume.
  absl::Span<float> mutable_optimizer_state(size_t index);
  absl::Span<float> mutable_master();
  absl::Span<std::byte> mutable_parameter_shard();

  // Goes on after `steps` steps, with states that were written since Initialize. In all stages but
  // 3 the working parameters are written through Params, whole and alike on all ranks; Params has
  // waited for what the last step still gathered there. A dynamic loss scale and the count of
  // skipped steps begin anew. In stage 3 units that are always whole are gathered anew before their
  // next use, and are not there until then. Local, but for gathers still on their way: ranks that
  // go on from different steps find out in the next one.
  //   InvalidArgument     steps is negative
  //   FailedPrecondition  before Initialize; within a step
  absl::Status Resume(int64_t steps);

  // What this rank holds now. Exact where nothing else uses the ledger's model-state tags.
  MemoryReport Memory() const;

  // How its collectives go: within the group, among those who hold the same shard, over all ranks.
  absl::StatusOr<WireRoutes> Routes() const;

  // What a step of all micro-steps that is taken must send, by this rank, if it begins now: the
  // first one after Resume may gather more.
  absl::StatusOr<WirePlan> ExpectedWire() const;

 private:
  class Impl;
  explicit ZeroOptimizer(std::unique_ptr<Impl> impl);

  absl::Status RunGradient(const absl::Status& started);
  std::byte* parameter_at(size_t index) const;
  std::byte* gradient_at(size_t index) const;
  absl::Status CheckGathered(size_t index) const;

  template <typename T>
  absl::Span<T> View(std::byte* at, size_t index) const {
    if (at == nullptr) return {};
    return absl::MakeSpan(reinterpret_cast<T*>(at),
                          static_cast<size_t>(layout().range(index).count));
  }

  std::unique_ptr<Impl> impl_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_ZERO_OPTIMIZER_H_
