// Host kernels that add, compare and convert elements: the arithmetic of every reduction.
//
// A reduction keeps its partial result either in the wire's dtype W or in its accumulator
// A = AccumulatorOf(W) (float32 for 16-bit floats; for other types A is W). The kernels are the
// four moves between them; `a` is the partial result so far, `b` the next rank's input:
//
//   Widen      A[] <- W[]                     exact
//   Accumulate A[] <- op(A[], W[])            one operation in A, no rounding to W
//   Finish     W[] <- A[] (/ divisor)         for kAvg one division in A; one rounding to W
//   Combine    W[] <- op(W[], W[])            widened, one operation in A, one rounding to W
//
// Rounding is to nearest, ties to even; infinities follow IEEE 754. -0 < +0 under min and max.
// Integer sums wrap. kAvg in Accumulate and Combine is a sum. NaN stays NaN, also under min and
// max: an operation with a NaN operand or without a value (inf - inf) gives the canonical quiet NaN
// of the type, positive and without payload, whatever the order of its operands. Widen and a Finish
// that only rounds keep sign and upper payload (see convert.h). dst may be the same memory as a or
// b where the elements have the same size, and in Finish the same as src; not partly overlap. Any
// alignment, any count.
//
// Every level gives the same bits. RZ_SIMD=portable|avx2|avx512 forces one; otherwise the best the
// processor has is taken once.
#ifndef RINGZERO_COLLECTIVES_KERNELS_REDUCE_KERNEL_H_
#define RINGZERO_COLLECTIVES_KERNELS_REDUCE_KERNEL_H_

#include "absl/status/statusor.h"
#include "collectives/kernels/kernel_table.h"
#include "runtime/base/dtype.h"
#include "runtime/base/simd_level.h"

namespace rz {

// InvalidArgument: kAvg of integers has no exact meaning here; the message names both.
absl::StatusOr<const ReduceKernel*> GetReduceKernel(DType dtype, ReduceOp op);

// The same for one level that this processor supports; for differential tests and benchmarks.
absl::StatusOr<const ReduceKernel*> GetReduceKernel(DType dtype, ReduceOp op, SimdLevel level);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_KERNELS_REDUCE_KERNEL_H_
