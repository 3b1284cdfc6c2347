// What a ZeroOptimizer is told: stage, dtypes, the optimizer and its numbers, buckets.
#ifndef RINGZERO_OPTIMIZER_ZERO_CONFIG_H_
#define RINGZERO_OPTIMIZER_ZERO_CONFIG_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "optimizer/kernels/optimizer_config.h"
#include "optimizer/layout/limits.h"
#include "optimizer/learning_rate.h"
#include "optimizer/loss_scaler.h"
#include "optimizer/parameter_group.h"
#include "runtime/base/clock.h"
#include "runtime/base/dtype.h"
#include "runtime/memory/memory.h"

namespace rz {

// What is sharded over the ranks.
enum class ZeroStage : uint8_t {
  kDdp,    // nothing: gradients all-reduced, everything replicated
  kNaive,  // optimizer states, with gradients all-reduced as a baseline for the wire
  kOne,    // optimizer states
  kTwo,    // and gradients
  kThree,  // and parameters
};

// "ddp", "naive", "1", "2", "3"; "0" parses as ddp.
std::string_view NameOf(ZeroStage stage);
std::optional<ZeroStage> ParseZeroStage(std::string_view name);
std::ostream& operator<<(std::ostream& os, ZeroStage stage);

// Where gradients of several micro-steps are added up.
enum class AccumulationPolicy : uint8_t {
  kLocal,  // on every rank, whole; reduced once: least traffic
  kShard,  // reduced at every micro-step, into the shard: least memory
};

// What ranks' gradients are reduced to.
enum class GradientReduction : uint8_t { kMean, kSum };

// Whether a thread of the communicator moves collectives while the program computes.
enum class ProgressThreadUse : uint8_t { kAuto, kOff, kOn };

// What shard_group_size may be beside a number of ranks.
inline constexpr int64_t kAllRanks = 0;
inline constexpr int64_t kRanksOfHost = -1;

struct ZeroConfig {
  ZeroStage stage = ZeroStage::kOne;

  // Stages 1, 2 and 3: so many consecutive ranks shard one copy of the states, as other groups of
  // them do. It divides the ranks.
  int64_t shard_group_size = kAllRanks;

  // Of working parameters and gradients. A 16-bit type has fp32 master weights beside it; with
  // float32 the working parameters are the master.
  DType dtype = DType::kBFloat16;

  OptimizerConfig optimizer;

  // What parameters may be of (ParamSpec::group), with or without any; none: one group, with the
  // optimizer's numbers.
  std::vector<ParameterGroup> groups;

  // Gives the learning rate of a step that is not told one.
  ScheduleConfig schedule;

  LossScaleConfig loss_scale;

  // Steps skipped in a row, for gradients that are not finite, until a step is an error; 0: never.
  // Those of a dynamic loss scale do not count: it comes down until gradients are finite, and ends
  // the run itself where it cannot any more.
  int64_t max_skipped_steps = 10;

  // The mean gradient is scaled down to this L2 norm where it is longer; 0: never.
  double gradient_clipping = 0;

  // Whether gradients are announced one by one (ZeroOptimizer::AddGradient) and not written into
  // views. Always so in stages 2 and 3 and with several micro-steps.
  bool announce_gradients = false;

  // Micro-steps whose gradients make one step.
  int64_t gradient_accumulation_steps = 1;
  AccumulationPolicy accumulation = AccumulationPolicy::kLocal;

  // What gradients are held and reduced in: the working dtype (also where not set), float32, or
  // with float32 parameters a 16-bit type. Views (ZeroOptimizer::Grads) are of it.
  std::optional<DType> communication_dtype;

  // What reduced gradients are kept in: that of communication (also where not set), or float32. Of
  // several micro-steps it is float32.
  std::optional<DType> accumulation_dtype;
  GradientReduction reduction = GradientReduction::kMean;

  // Elements of a bucket; rounded up to whole tiles. Where the second is not set, parameters are
  // gathered in the buckets that gradients are reduced in.
  int64_t reduce_bucket_size = 500'000'000;
  std::optional<int64_t> allgather_bucket_size;

  // Whether buckets are reduced while backward still computes others. Always so in stages 2 and 3,
  // which could not hold them until the step.
  bool overlap_communication = false;

  // Stages naive, 1 and 2: a step ends once parameters are updated and their gathers are started,
  // which go on behind the next forward. A unit's are waited for by Gather, Params and
  // GatheredParams of it: for programs that call one of these for each unit in every forward and
  // keep no address over a step. Other all_gathers on this communicator before the next step's
  // first gradient may be counted as its bytes.
  bool gather_behind_forward = false;

  // kAuto: where collectives go on beside computing and ranks talk over a network, if the transport
  // can have one. Changes no bit; ranks may differ.
  ProgressThreadUse progress_thread = ProgressThreadUse::kAuto;

  // Stage 3: a unit's parameters are kept from forward to backward where no more elements than
  // these are used in between, as always the last unit's are, and where what is kept so is within
  // max_live_parameters; others are gathered again.
  int64_t max_reuse_distance = 0;

  // Stage 3: elements gathered ahead of their use, elements gathered at once, and the size up to
  // which a unit of parameters is kept whole on every rank.
  int64_t prefetch_bucket_size = 50'000'000;
  int64_t max_live_parameters = 1'000'000'000;
  int64_t param_persistence_threshold = 0;

  // Collectives of buckets that may be under way together.
  int buckets_in_flight = 4;

  // Stage 1, where ranks share memory and gradients have the working dtype and are not kept in
  // float32: sum, inspect, update and share without keeping what comes between. The same bits.
  // Where it is not set, if it is faster: gradients that are inspected are summed twice, which does
  // not pay, but needs no memory for this rank's sums.
  std::optional<bool> fuse_step;

  // Whether a step's gradients are looked at before it is taken: for the norm, clipping, and
  // elements that are not finite. Without it such elements spoil the parameters, and groups of
  // ranks that come to hold different gradients are not noticed; a fused step then takes one pass
  // over memory where it takes two.
  bool inspect_gradients = true;

  // See PartitionOptions.
  int64_t tile_chunk = kDefaultTileChunk;

  MemoryLedger* ledger = MemoryLedger::Default();
  const Clock* clock = Clock::Steady();
};

// Every rank holds whole gradients, or a shard of them and those of open buckets.
inline bool HoldsWholeGradients(ZeroStage stage) {
  return stage != ZeroStage::kTwo && stage != ZeroStage::kThree;
}

// Gradients enter by AddGradient.
inline bool AnnouncesGradients(const ZeroConfig& config) {
  return config.announce_gradients || !HoldsWholeGradients(config.stage) ||
         config.gradient_accumulation_steps > 1;
}

// Updated parameters are gathered behind the next forward.
inline bool GathersBehindForward(const ZeroConfig& config) {
  return config.gather_behind_forward && config.stage != ZeroStage::kDdp &&
         config.stage != ZeroStage::kThree;
}

// Collectives are under way while the program computes.
inline bool OverlapsComputing(const ZeroConfig& config) {
  return config.overlap_communication || config.gather_behind_forward ||
         !HoldsWholeGradients(config.stage);
}

// Of the gradients that enter, stand in buckets and are reduced.
inline DType GradientDType(const ZeroConfig& config) {
  return config.communication_dtype.value_or(config.dtype);
}

// Reduced gradients are kept in float32: the sum of what is reduced at every micro-step, or of one
// where accumulation_dtype asks for it.
inline bool AccumulatesShards(const ZeroConfig& config) {
  if (config.gradient_accumulation_steps > 1) {
    return config.accumulation == AccumulationPolicy::kShard;
  }
  return config.accumulation_dtype.value_or(GradientDType(config)) != GradientDType(config);
}

// Gradients are added up in float32 on every rank and reduced once.
inline bool AccumulatesLocally(const ZeroConfig& config) {
  return config.gradient_accumulation_steps > 1 &&
         config.accumulation == AccumulationPolicy::kLocal;
}

// Of the gradients that are inspected and applied.
inline DType AppliedGradientDType(const ZeroConfig& config) {
  return AccumulatesShards(config) ? DType::kFloat32 : GradientDType(config);
}

// Whether a fused step is the faster one, where it can be.
bool FusingPays(const ZeroConfig& config);

// Learning rate of a group's step after `steps_taken` others, by the schedule.
double ScheduledRate(const ZeroConfig& config, size_t group, int64_t steps_taken);

// InvalidArgument names the field, its value and what it may be; Unimplemented names what this
// optimizer knows but does not run.
absl::Status ValidateConfig(const ZeroConfig& config);

// All settings that ranks must have alike, as text.
std::string Fingerprint(const ZeroConfig& config);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_ZERO_CONFIG_H_
