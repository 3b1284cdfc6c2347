// TestData: inputs whose exact result does not depend on the order of a reduction, and that result,
// both computed from (seed, rank, index) alone, so that every rank can check its own output.
//
// A copying operation moves arbitrary bits. A reduction of integers wraps, so any values do. Of
// floats: sums (also avg and premul_sum) take integers so small that every partial sum of any
// subset is exact in the dtype itself; products take powers of two and one odd number, in a range
// where every partial product is exact. So a result is compared bit for bit, also where an
// algorithm rounds at every hop. An avg is that exact sum, divided once in the accumulator and
// rounded once.
#ifndef RINGZERO_TOOLS_BENCH_TEST_DATA_H_
#define RINGZERO_TOOLS_BENCH_TEST_DATA_H_

#include <cstdint>
#include <optional>

#include "collectives/kernels/reduce_kernel.h"
#include "runtime/base/dtype.h"
#include "tools/bench/call_shape.h"

namespace rz {

class TestData {
 public:
  // op: of a reduction; none: elements are copied. avg only of floating dtypes.
  TestData(DType dtype, std::optional<ReduceOp> op, int world);

  // What a premul_sum multiplies with.
  PremulFactor premul() const { return {.floating = 2, .integer = 3}; }

  // Writes elements [begin, begin + count) of `rank`'s input to `dst`.
  void Fill(uint64_t seed, int rank, int64_t begin, int64_t count, void* dst) const;

  // What a receive buffer holds at `piece` afterwards, written to dst[0, piece.count).
  void Expect(uint64_t seed, const ExpectedPiece& piece, void* dst) const;

  // Elements of recv[piece.offset, + piece.count) that differ from that in any bit.
  int64_t CountWrong(uint64_t seed, const ExpectedPiece& piece, const void* recv) const;

 private:
  DType dtype_;
  std::optional<ReduceOp> op_;
  int world_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_TEST_DATA_H_
