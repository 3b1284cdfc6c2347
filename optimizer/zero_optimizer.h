// ZeroOptimizer: owns the model states of one rank and steps them together with all other ranks.
//
// The model's parameters and gradients are views into two flat buffers. A step reduces the
// gradients bucket by bucket, agrees once with all ranks that the step may be taken (the commit
// point: before it nothing has changed), updates what this rank owns, and gathers the new working
// parameters. The stage says what is owned: everything (ddp), or a shard of the optimizer states
// (1). Both give the same bits for the same world.
//
// Gradients. Every rank writes, before a step, all gradients of its own samples scaled such that
// the *average over ranks* is the mean over all samples:
//
//     local gradient = (sum over local samples of d loss / d parameter) * world / samples of all
//     ranks * loss_scale()
//
// Ranks may hold different numbers of samples, also none (their gradients are zeros). The reduction
// divides the fp32 sum by the world size before its one rounding, so 16-bit sums do not overflow.
// GradientScale() gives the factor without loss_scale(), which is 1 unless the config asks for
// more.
//
// Order of calls: Create; Initialize (all ranks together); then for each step write Gradients,
// Step. After a step the contents of Gradients are unspecified: write all of them again.
//
// Threads: one owner thread, the communicator's. Nothing is allocated in a step that is taken,
// after the first. After an error of a step or of Initialize the communicator has failed, and every
// later call returns its first cause; working parameters are then unusable.
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
#include "optimizer/layout/flat_layout.h"
#include "optimizer/layout/partition.h"
#include "optimizer/memory_report.h"
#include "optimizer/step_report.h"
#include "optimizer/wire_plan.h"
#include "optimizer/zero_config.h"

namespace rz {

struct StepOptions {
  // Learning rate of this step, the same on all ranks; where it is not set, what the schedule says.
  std::optional<double> learning_rate;
};

// The factor of the header's formula: for a sum over local samples.
double GradientScale(int world_size, int64_t samples_of_all_ranks);

class ZeroOptimizer {
 public:
  // Fills `values` with the initial fp32 values of parameter `index` (in the order of declaration).
  using Initializer = std::function<void(size_t index, absl::Span<float> values)>;

  // Allocates this rank's states, all zero. Local: no traffic. The communicator outlives the
  // optimizer and is deterministic for ddp and ZeRO to give equal bits.
  //   InvalidArgument    a parameter or a config value that cannot be; the message names it
  //   Unimplemented      a stage or dtype this optimizer does not run
  //   ResourceExhausted  no memory; the message says for what
  static absl::StatusOr<std::unique_ptr<ZeroOptimizer>> Create(Communicator* communicator,
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
  //   FailedPrecondition  before Initialize; or ranks disagree on plan, step count, learning rate
  //                       or loss scale
  //   InvalidArgument     a learning rate that is not finite or negative
  //   OutOfRange          an overflow at the smallest dynamic loss scale
  //   otherwise           the communicator's first cause
  absl::StatusOr<StepReport> Step(const StepOptions& options);

  // The non-blocking forms the two above stand on: Start, then Poll until true, then the result.
  // Poll does what is possible without waiting. One activity at a time: FailedPrecondition if
  // another is under way. `initializer` is kept until the activity ends.
  absl::Status StartInitialize(Initializer initializer);
  absl::Status StartStep(const StepOptions& options);
  bool Poll();
  absl::Status InitializeResult() const;
  absl::StatusOr<StepReport> StepResult() const;

  const FlatLayout& layout() const;
  const Partition& partition() const;
  const ZeroConfig& config() const;
  int64_t steps_taken() const;

  // Of the next step, by the schedule.
  double learning_rate() const;

  // What the gradients of the next step are to be multiplied by.
  double loss_scale() const;

  // Views of parameter `index` as it is used by the model: T is float for float32, uint16_t (bit
  // patterns) for 16-bit types.
  template <typename T>
  absl::Span<T> Params(size_t index) const {
    return View<T>(parameter_bytes(), index);
  }
  template <typename T>
  absl::Span<T> Grads(size_t index) const {
    return View<T>(gradient_bytes(), index);
  }

  // Makes all gradients zero, for models that add to them.
  void ZeroGradients();

  // The fp32 states this rank owns, in shard order (ddp: flat order); for checkpoints and tests.
  // With float32 in stage 1 the master is spread over the working parameters and is not shown here.
  // `index` is below StateCount(config().optimizer).
  absl::Span<const float> optimizer_state(size_t index) const;
  absl::Span<const float> master() const;

  // What this rank holds now. Exact where nothing else uses the ledger's model-state tags.
  MemoryReport Memory() const;

  // What one step that is taken must send, by this rank.
  absl::StatusOr<WirePlan> ExpectedWire() const;

 private:
  class Impl;
  explicit ZeroOptimizer(std::unique_ptr<Impl> impl);

  absl::Span<std::byte> parameter_bytes() const;
  absl::Span<std::byte> gradient_bytes() const;

  template <typename T>
  absl::Span<T> View(absl::Span<std::byte> flat, size_t index) const {
    const Range range = layout().range(index);
    return absl::MakeSpan(reinterpret_cast<T*>(flat.data()) + range.offset,
                          static_cast<size_t>(range.count));
  }

  std::unique_ptr<Impl> impl_;
};

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_ZERO_OPTIMIZER_H_
