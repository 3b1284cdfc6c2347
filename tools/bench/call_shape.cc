#include "tools/bench/call_shape.h"

#include <algorithm>
#include <numeric>

namespace rz {
namespace {

using Op = BenchOperation;

int64_t Sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// What stands before each rank's block.
int64_t Before(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

void AllReduce(const ShapeRequest& request, int64_t count, CallShape& shape) {
  const bool receives =
      request.operation == Op::kAllReduce || request.rank == request.root;  // or reduce
  shape.count = shape.send_count = shape.in_place_count = count;
  shape.recv_count = receives ? count : 0;
  if (receives) shape.expected = {{.count = count}};
}

void ReduceScatter(const ShapeRequest& request, const std::vector<int64_t>& counts,
                   CallShape& shape) {
  const int rank = request.rank.value();
  shape.count = shape.send_count = shape.in_place_count = Sum(counts);
  shape.recv_count = counts[rank];
  shape.in_place_recv = Before(counts, rank);
  shape.expected = {{.count = counts[rank], .source_index = shape.in_place_recv}};
}

// Also gather, where only the root receives.
void AllGather(const ShapeRequest& request, const std::vector<int64_t>& counts, CallShape& shape) {
  const int rank = request.rank.value();
  const bool receives = request.operation != Op::kGather || request.rank == request.root;
  shape.count = Sum(counts);
  shape.send_count = counts[rank];
  shape.send_index = Before(counts, rank);
  shape.in_place_count = receives ? shape.count : shape.send_count;
  shape.in_place_send = receives ? shape.send_index : 0;
  if (!receives) return;
  shape.recv_count = shape.count;
  for (int source = 0; source < request.world; ++source) {
    const int64_t before = Before(counts, source);
    shape.expected.push_back(
        {.offset = before, .count = counts[source], .source = source, .source_index = before});
  }
}

void Scatter(const ShapeRequest& request, const std::vector<int64_t>& counts, CallShape& shape) {
  const int rank = request.rank.value();
  const bool sends = request.rank == request.root;
  const int64_t before = Before(counts, rank);
  shape.count = Sum(counts);
  shape.send_count = sends ? shape.count : 0;
  shape.recv_count = counts[rank];
  shape.in_place_count = sends ? shape.count : shape.recv_count;
  shape.in_place_recv = sends ? before : 0;
  shape.expected = {
      {.count = counts[rank], .source = request.root.value(), .source_index = before}};
}

// Each rank sends counts[j] to rank j, so that it receives counts[rank] from everybody.
void AllToAll(const ShapeRequest& request, const std::vector<int64_t>& counts, CallShape& shape) {
  const int rank = request.rank.value();
  shape.send_count = Sum(counts);
  shape.recv_count = counts[rank] * request.world;
  for (int source = 0; source < request.world; ++source) {
    shape.expected.push_back({.offset = source * counts[rank],
                              .count = counts[rank],
                              .source = source,
                              .source_index = Before(counts, rank)});
  }
}

// The counts with which nobody sends or receives more than `elements`: whoever is to get most gets
// as much from each.
std::vector<int64_t> AllToAllCounts(CountPattern pattern, int64_t elements, int world) {
  const std::vector<int64_t> full = SpreadCounts(pattern, elements, world);
  const int64_t most = *std::max_element(full.begin(), full.end());
  const double excess = static_cast<double>(most) * world / static_cast<double>(elements);
  if (elements == 0 || excess <= 1) return full;
  auto total = static_cast<int64_t>(static_cast<double>(elements) / excess);
  std::vector<int64_t> counts = SpreadCounts(pattern, total, world);
  while (*std::max_element(counts.begin(), counts.end()) * world > elements) {
    counts = SpreadCounts(pattern, --total, world);
  }
  return counts;
}

// A call of no more than `elements` in any buffer.
CallShape ShapeIn(const ShapeRequest& request, int64_t elements) {
  const int world = request.world;
  CallShape shape;
  switch (request.operation) {
    case Op::kAllReduce:
    case Op::kReduce:
      AllReduce(request, elements, shape);
      break;
    case Op::kReduceScatter:
      ReduceScatter(request, SpreadCounts(CountPattern::kEven, elements, world), shape);
      break;
    case Op::kAllGather:
    case Op::kGather:
      AllGather(request, SpreadCounts(CountPattern::kEven, elements, world), shape);
      break;
    case Op::kScatter:
      Scatter(request, SpreadCounts(CountPattern::kEven, elements, world), shape);
      break;
    case Op::kBroadcast:
      shape.count = shape.send_count = shape.recv_count = shape.in_place_count = elements;
      shape.expected = {{.count = elements, .source = request.root.value()}};
      break;
    case Op::kAllToAll:
      AllToAll(request, std::vector<int64_t>(world, elements / world), shape);
      shape.count = elements / world;
      break;
    case Op::kSendRecv:
      shape.count = shape.send_count = shape.recv_count = elements;
      shape.expected = {{.count = elements, .source = (request.rank.value() + world - 1) % world}};
      break;
    case Op::kBarrier:
      break;
    case Op::kReduceScatterV:
      shape.counts = SpreadCounts(request.pattern, elements, world);
      ReduceScatter(request, shape.counts, shape);
      break;
    case Op::kAllGatherV:
      shape.counts = SpreadCounts(request.pattern, elements, world);
      AllGather(request, shape.counts, shape);
      break;
    case Op::kAllToAllV:
      shape.counts = AllToAllCounts(request.pattern, elements, world);
      shape.recv_counts.assign(world, shape.counts[request.rank.value()]);
      AllToAll(request, shape.counts, shape);
      shape.count = shape.send_count;
      break;
  }
  return shape;
}

}  // namespace

std::string_view NameOf(CountPattern pattern) {
  switch (pattern) {
    case CountPattern::kEven:
      return "even";
    case CountPattern::kHalf:
      return "half";
    case CountPattern::kZero:
      return "zero";
  }
  return "unknown";
}

std::vector<int64_t> SpreadCounts(CountPattern pattern, int64_t total, int world) {
  std::vector<int64_t> counts(world, 0);
  if (pattern == CountPattern::kHalf && world > 1) {
    counts[0] = total - total / 2;
    for (int rank = 1; rank < world; ++rank) {
      counts[rank] = EvenSplit(total / 2, world - 1, rank - 1).count;
    }
    return counts;
  }
  const int step = pattern == CountPattern::kZero ? 2 : 1;
  const int holders = (world + step - 1) / step;
  for (int i = 0; i < holders; ++i) counts[i * step] = EvenSplit(total, holders, i).count;
  return counts;
}

CallShape ShapeOf(const ShapeRequest& request) {
  CallShape shape = ShapeIn(request, request.bytes / request.element_size);
  int64_t most = shape.count;
  switch (request.operation) {
    case Op::kAllToAll:
      most = shape.send_count;
      break;
    case Op::kAllToAllV:
      most = std::max(shape.send_count,
                      *std::max_element(shape.counts.begin(), shape.counts.end()) * request.world);
      break;
    default:
      break;
  }
  shape.size_bytes = most * request.element_size;
  return shape;
}

}  // namespace rz
