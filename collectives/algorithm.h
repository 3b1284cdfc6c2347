// Which algorithm carries which collective: what is known, what RZ_ALGO asks for, what is chosen
// otherwise and why. The choice uses only values that all ranks share.
#ifndef RINGZERO_COLLECTIVES_ALGORITHM_H_
#define RINGZERO_COLLECTIVES_ALGORITHM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collectives/schedule/schedule.h"
#include "runtime/base/dtype.h"

namespace rz {

enum class Collective : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier };
inline constexpr size_t kCollectiveCount = 5;

enum class Algorithm : uint8_t {
  kRing,           // deterministic mode: partial sums in the accumulator's dtype; fast: the wire's
  kRingWire,       // partial sums in the wire's dtype, rounded at every hop: fast mode only
  kPairwise,       // inputs travel, their owner sums them
  kBinomial,       // tree
  kChain,          // pipeline from rank to rank
  kDissemination,  // of signals
};

std::string_view NameOf(Collective collective);  // "all_reduce", ...
std::string_view NameOf(Algorithm algorithm);    // "ring", "ring_wire", ...
std::optional<Collective> ParseCollective(std::string_view name);

bool IsReduction(Collective collective);

// Format in which partial sums are kept. Where a dtype is its own accumulator there is only one.
Format PartialsOf(Algorithm algorithm, DType dtype, NumericMode mode);

struct Choice {
  Algorithm algorithm = Algorithm::kRing;
  std::string_view reason;  // "" where there is nothing to choose from
};

class AlgorithmTable {
 public:
  // `wanted` is `collective:algorithm[,...]` as in RZ_ALGO; empty: everything is chosen here.
  //   InvalidArgument  a token that is not understood (the message lists what is, and the nearest
  //                    name), a collective named twice, or an algorithm that breaks the mode
  static absl::StatusOr<AlgorithmTable> Parse(std::string_view wanted, NumericMode mode,
                                              size_t slice_bytes);

  // `bytes` is the size of the whole buffer on every rank.
  Choice Choose(Collective collective, DType dtype, int64_t bytes) const;

  // The choice for people: "pairwise (inputs travel as bfloat16, their owner sums in float32;
  // ...)".
  std::string Describe(Collective collective, DType dtype) const;

  NumericMode mode() const { return mode_; }

 private:
  AlgorithmTable(NumericMode mode, size_t slice_bytes) : mode_(mode), slice_bytes_(slice_bytes) {}

  NumericMode mode_;
  size_t slice_bytes_;
  std::array<std::optional<Algorithm>, kCollectiveCount> wanted_;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_ALGORITHM_H_
