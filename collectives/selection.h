// Which algorithm carries a call, and why: the cheapest by the cost model among those that can, or
// the one that RZ_ALGO asks for. All ranks choose alike: nothing goes in but what they share.
#ifndef RINGZERO_COLLECTIVES_SELECTION_H_
#define RINGZERO_COLLECTIVES_SELECTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/algorithm.h"
#include "collectives/collective.h"
#include "collectives/cost_model.h"
#include "runtime/base/dtype.h"

namespace rz {

// What the choice depends on.
struct Request {
  Collective collective = Collective::kBarrier;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // of reductions
  int64_t count = 0;             // as in Call; of a v variant the sum of the counts
  int64_t tile_chunk = 0;
  NumericMode mode = NumericMode::kDeterministic;
  bool any_order = false;  // no order of combination changes a bit, as the function says

  // A v variant. all_to_all_v's counts are each rank's own, so its choice does not look at them.
  bool has_counts = false;
  int64_t largest_count = 0;

  friend bool operator==(const Request&, const Request&) = default;
};

// An algorithm that was considered.
struct Candidate {
  Algorithm algorithm = Algorithm::kRing;
  bool chosen = false;
  std::string_view excluded;  // "": may be chosen; otherwise why not
  absl::Duration predicted;
};

// What Communicator::Explain returns.
struct Explanation {
  std::vector<Candidate> candidates;  // cheapest first, the excluded ones last
  std::string reason;                 // of the choice
  std::string text;                   // all of it, several lines

  Algorithm algorithm() const;
};

// How the data of a large call reaches the other ranks.
struct Carriage {
  // In which inputs or partial sums travel; none: nothing does, the ranks share memory.
  std::optional<DType> wire;
  // A rank sends N - 1 of N parts of the data, and no more; of all_reduce in each of two halves.
  bool least_bytes = true;
  std::string text;  // for people: "ring (float32 partial sums)"
};

// Threads: one owner; the last choices are remembered, so that a repeated call costs no
// predictions.
class Selector {
 public:
  // Until ShareMemory, over messages alone.
  Selector(int world, size_t slice_bytes, LinkKind link, WantedAlgorithms wanted)
      : world_(world), slice_bytes_(slice_bytes), link_(link), wanted_(wanted) {}

  // From here on the ranks share memory, all of them.
  void ShareMemory();
  bool shares_memory() const { return shares_memory_; }

  // The ranks have found that they do not: their messages cross a network.
  void CrossNetwork();

  // Beside that: how many hosts there are, the ranks of the smallest and of the largest, and
  // whether a host has fewer cores than ranks.
  struct HostCounts {
    int hosts = 0;  // 0: not known
    int smallest = 0;
    int largest = 0;
    bool cores_are_few = false;
  };
  void UseHosts(const HostCounts& hosts);

  // While the ranks find out whether they share memory, what asks for it is left to us.
  void set_finding_out(bool finding_out) {
    finding_out_ = finding_out;
    ++generation_;
  }

  // Another number whenever the same request may be answered otherwise than before.
  int64_t generation() const { return generation_; }

  // Allocates nothing.
  //   InvalidArgument  the algorithm that is asked for cannot carry this call; the message names
  //                    both and says why
  absl::StatusOr<Algorithm> Choose(const Request& request) const;

  //   InvalidArgument  as Choose
  absl::StatusOr<Explanation> Explain(const Request& request) const;

  // The choice for a large call in tiles, in text "pairwise (bfloat16 inputs, float32 sums; least
  // predicted time over shared memory)".
  //   InvalidArgument  as Choose
  absl::StatusOr<Carriage> CarriageOf(Collective collective, DType dtype, NumericMode mode) const;

  // Elements of a lane's blocks when `algorithm` carries the request, so that scratch is bounded.
  int64_t SliceElements(const AlgorithmTraits& traits, DType dtype) const;

 private:
  // "" where it can carry the request; where it may also be chosen unasked.
  std::string_view WhyNot(const AlgorithmTraits& traits, const Request& request) const;
  std::string_view WhyNotChosen(const AlgorithmTraits& traits, const Request& request) const;
  absl::Duration Predict(const AlgorithmTraits& traits, const Request& request) const;
  // Of kHierarchical.
  absl::Duration PredictStages(const AlgorithmTraits& traits, const Request& request) const;
  // Of the cheapest that may be chosen.
  absl::Duration PredictLeast(const Request& request) const;
  int64_t BlockElements(const AlgorithmTraits& traits, const Request& request) const;

  struct Remembered {
    Request request;
    const AlgorithmTraits* choice = nullptr;
  };
  static constexpr size_t kRemembered = 16;

  // What was chosen before.
  void Forget();
  const AlgorithmTraits& Cheapest(const Request& request) const;
  Candidate Consider(const AlgorithmTraits& traits, const Request& request) const;

  int world_;
  size_t slice_bytes_;
  LinkKind link_;
  WantedAlgorithms wanted_;
  bool shares_memory_ = false;
  bool finding_out_ = false;
  int64_t generation_ = 0;
  HostCounts hosts_;
  std::unique_ptr<Selector> column_;  // how a column would choose; null: there is none
  mutable std::array<Remembered, kRemembered> remembered_;
  mutable size_t next_to_forget_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_SELECTION_H_
