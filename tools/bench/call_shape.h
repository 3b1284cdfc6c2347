// CallShape: what one rank's part of a measured call is: how many elements each buffer has, where
// they lie in place, and which elements of whose input arrive where.
#ifndef RINGZERO_TOOLS_BENCH_CALL_SHAPE_H_
#define RINGZERO_TOOLS_BENCH_CALL_SHAPE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/chunk_layout.h"
#include "runtime/base/types.h"
#include "tools/bench/operation.h"

namespace rz {

// How a v variant spreads its elements over the ranks.
enum class CountPattern : uint8_t {
  kEven,  // as the even variant
  kHalf,  // rank 0 has half, the others share the rest
  kZero,  // ranks of odd number have nothing
};
std::string_view NameOf(CountPattern pattern);

// counts[rank], which add up to `total`.
std::vector<int64_t> SpreadCounts(CountPattern pattern, int64_t total, int world);

// recv[offset, offset + count) comes from input elements [source_index, ...) of rank `source`, or,
// kAllRanks, from the reduction of all ranks' elements there.
struct ExpectedPiece {
  static constexpr int kAllRanks = -1;
  int64_t offset = 0;
  int64_t count = 0;
  int source = kAllRanks;
  int64_t source_index = 0;

  friend bool operator==(const ExpectedPiece&, const ExpectedPiece&) = default;
};

struct CallShape {
  // As the call takes it: elements of the whole buffer, for each rank in all_to_all, in a v variant
  // the sum of the counts.
  int64_t count = 0;
  int64_t size_bytes = 0;  // of the larger buffer of the rank that has most

  // Elements of this rank's buffers; 0 where it has none (recv of reduce beside the root).
  int64_t send_count = 0;
  int64_t recv_count = 0;

  // send[0] is element `send_index` of this rank's input.
  int64_t send_index = 0;
  std::vector<ExpectedPiece> expected;

  // In place: where the two buffers begin in the one that has `in_place_count` elements.
  int64_t in_place_count = 0;
  int64_t in_place_send = 0;
  int64_t in_place_recv = 0;

  // Of v variants: one count a rank; of all_to_all_v what goes to each and what comes from each.
  std::vector<int64_t> counts;
  std::vector<int64_t> recv_counts;
};

struct ShapeRequest {
  BenchOperation operation = BenchOperation::kAllReduce;
  int64_t bytes = 0;         // of the larger buffer; what does not fill an element is dropped
  int64_t element_size = 1;  // in bytes
  int world = 1;
  Rank rank = Rank(0);
  Rank root = Rank(0);
  CountPattern pattern = CountPattern::kHalf;  // of v variants
};

CallShape ShapeOf(const ShapeRequest& request);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_CALL_SHAPE_H_
