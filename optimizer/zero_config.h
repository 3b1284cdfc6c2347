// What a ZeroOptimizer is told: stage, dtypes, the optimizer and its numbers, buckets.
#ifndef RINGZERO_OPTIMIZER_ZERO_CONFIG_H_
#define RINGZERO_OPTIMIZER_ZERO_CONFIG_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "optimizer/kernels/optimizer_config.h"
#include "optimizer/layout/limits.h"
#include "optimizer/learning_rate.h"
#include "optimizer/loss_scaler.h"
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

struct ZeroConfig {
  ZeroStage stage = ZeroStage::kOne;

  // Of working parameters and gradients. A 16-bit type has fp32 master weights beside it; with
  // float32 the working parameters are the master.
  DType dtype = DType::kBFloat16;

  OptimizerConfig optimizer;

  // Gives the learning rate of a step that is not told one.
  ScheduleConfig schedule;

  LossScaleConfig loss_scale;

  // The mean gradient is scaled down to this L2 norm where it is longer; 0: never.
  double gradient_clipping = 0;

  // Micro-steps whose gradients make one step.
  int64_t gradient_accumulation_steps = 1;
  AccumulationPolicy accumulation = AccumulationPolicy::kLocal;

  // What gradients are accumulated and kept in, and reduced in; the working dtype where not set
  // (float32 where several micro-steps are added up).
  std::optional<DType> accumulation_dtype;
  std::optional<DType> communication_dtype;
  GradientReduction reduction = GradientReduction::kMean;

  // Elements of a bucket; rounded up to whole tiles. Where the second is not set, parameters are
  // gathered in the buckets that gradients are reduced in.
  int64_t reduce_bucket_size = 500'000'000;
  std::optional<int64_t> allgather_bucket_size;

  // Whether buckets are reduced while backward still computes others.
  bool overlap_communication = false;

  // Stage 3: elements gathered ahead of their use, elements gathered at once, and the size up to
  // which a parameter is kept whole on every rank.
  int64_t prefetch_bucket_size = 50'000'000;
  int64_t max_live_parameters = 1'000'000'000;
  int64_t param_persistence_threshold = 0;

  // Collectives of buckets that may be under way together.
  int buckets_in_flight = 4;

  // See PartitionOptions.
  int64_t tile_chunk = kDefaultTileChunk;

  MemoryLedger* ledger = MemoryLedger::Default();
  const Clock* clock = Clock::Steady();
};

// InvalidArgument names the field, its value and what it may be; Unimplemented names what this
// optimizer knows but does not run.
absl::Status ValidateConfig(const ZeroConfig& config);

// All settings that ranks must have alike, as text.
std::string Fingerprint(const ZeroConfig& config);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_ZERO_CONFIG_H_
