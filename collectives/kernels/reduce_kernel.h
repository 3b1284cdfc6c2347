// Host kernels that add, multiply, compare and convert elements: the arithmetic of every reduction.
//
// A reduction keeps its partial result either in the wire's dtype W or in its accumulator
// A = AccumulatorOf(W) (float32 for 16- and 8-bit floats; for other types A is W). The kernels are
// the moves between them; `a` is the partial result so far, `b` the next rank's input:
//
//   Widen            A[] <- W[]                     exact
//   Accumulate       A[] <- op(A[], W[])            one operation in A, no rounding to W
//   Finish           W[] <- A[] (/ divisor)         for kAvg one division in A; one rounding to W
//   Combine          W[] <- op(W[], W[])            widened, one operation in A, one rounding to W
//   WidenScaled      A[] <- f * W[]                 kPremulSum: one multiplication in A
//   AccumulateScaled A[] <- A[] + f * W[]           kPremulSum: product and sum each rounded in A
//
// kPremulSum: the factor f is in A, and each rank's input is multiplied in A where it enters the
// sum, by a kernel named scaled; so a canonical sum still rounds to W once. Its other four kernels
// are those of kSum, for partial results, whose inputs have been multiplied already: the caller
// knows which operand is which.
//
// Rounding is to nearest, ties to even; infinities follow IEEE 754; what 8-bit floats do beyond
// their largest number is in convert.h. -0 < +0 under min and max. Integer sums and products wrap
// modulo 2^bits, those of 8 bits too. kAvg in Accumulate and Combine is a sum. NaN stays NaN, also
// under min and max: an operation with a NaN operand or without a value (inf - inf, 0 * inf) gives
// the canonical quiet NaN of the type, positive and without payload, whatever the order of its
// operands. Widen and a Finish that only rounds keep sign and upper payload (see convert.h). dst
// may be the same memory as a or b where the elements have the same size, and in Finish the same
// as src; not partly overlap. Any alignment, any count.
//
// Error of a sum s of the inputs x of N ranks, without overflow, u being half the distance from 1
// to the next number of a type: 2^-24 in float32, 2^-8 in bfloat16, 2^-11 in float16, 2^-4 in e4m3,
// 2^-3 in e5m2.
//
//   One rounding (Widen, N-1 times Accumulate, Finish):
//     |error| <= (N-1) u(A) sum|x| + half an ulp of the result in W
//   A rounding a hop (N-1 times Combine, in any order, as a ring in fast mode):
//     |error| <= (N-1) u(W) sum|x|
//
// Each addition errs by a factor of at most 1 + u (a sum in the subnormal range is exact); Higham,
// Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2, has the bound with
// (N-1) u / (1 - (N-1) u), and Jeannerod and Rump, Improved error bounds for inner products in
// floating-point arithmetic (SIAM J. Matrix Anal. Appl. 34, 2013), without the denominator, for
// every N. That Combine rounds in A and then in W costs nothing more: A has at least 2 p + 2 digits
// where W has p, so the two roundings of a sum of two numbers of W are as one (Figueroa, When is
// double rounding innocuous?, SIGNUM Newsletter 30, 1995). A mean is the sum divided in A, one
// rounding there, before the rounding to W. kPremulSum is the sum of the rounded products.
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

// InvalidArgument: kAvg of integers has no exact meaning here (the message names both), and
// kFunction no kernel.
absl::StatusOr<const ReduceKernel*> GetReduceKernel(DType dtype, ReduceOp op);

// The same for one level that this processor supports; for differential tests and benchmarks.
absl::StatusOr<const ReduceKernel*> GetReduceKernel(DType dtype, ReduceOp op, SimdLevel level);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_KERNELS_REDUCE_KERNEL_H_
