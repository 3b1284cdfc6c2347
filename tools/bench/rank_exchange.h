// RankExchange: what the ranks of a benchmark tell each other beside the calls that are measured,
// over a communicator of its own, so that options of the measured one do not touch it.
#ifndef RINGZERO_TOOLS_BENCH_RANK_EXCHANGE_H_
#define RINGZERO_TOOLS_BENCH_RANK_EXCHANGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"

namespace rz {

// All ranks call the same methods in the same order. Errors are the communicator's.
class RankExchange {
 public:
  // The communicator outlives this.
  explicit RankExchange(Communicator* communicator) : communicator_(*communicator) {}

  int rank() const { return communicator_.rank().value(); }
  int world_size() const { return communicator_.world_size(); }

  absl::Status Barrier() { return communicator_.Barrier(); }

  // Every rank's value.
  absl::StatusOr<std::vector<double>> Gather(double value);
  // Every rank's text, cut to 255 bytes.
  absl::StatusOr<std::vector<std::string>> GatherText(std::string_view text);

  absl::StatusOr<int64_t> Sum(int64_t value);
  // Each value becomes the largest any rank has.
  absl::Status TakeLargest(absl::Span<double> values);

 private:
  Communicator& communicator_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_RANK_EXCHANGE_H_
