// What a ZeroOptimizer is told: stage, dtype, AdamW's numbers, buckets.
#ifndef RINGZERO_OPTIMIZER_ZERO_CONFIG_H_
#define RINGZERO_OPTIMIZER_ZERO_CONFIG_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

#include "absl/status/status.h"
#include "optimizer/layout/limits.h"
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

// Decoupled weight decay (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019).
struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

struct ZeroConfig {
  ZeroStage stage = ZeroStage::kOne;

  // Of working parameters and gradients. A 16-bit type has fp32 master weights beside it; with
  // float32 the working parameters are the master.
  DType dtype = DType::kBFloat16;

  AdamWConfig adamw;

  // Elements of a bucket; rounded up to whole tiles.
  int64_t reduce_bucket_size = 500'000'000;

  // Collectives of buckets that may be under way together.
  int buckets_in_flight = 4;

  // See PartitionOptions.
  int64_t tile_chunk = kDefaultTileChunk;

  MemoryLedger* ledger = MemoryLedger::Default();
  const Clock* clock = Clock::Steady();
};

// InvalidArgument names the field, its value and what it may be; Unimplemented names a stage or
// dtype that this optimizer knows but does not run.
absl::Status ValidateConfig(const ZeroConfig& config);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_ZERO_CONFIG_H_
