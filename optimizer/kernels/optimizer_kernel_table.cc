// The optimizer's kernels, compiled once a level.
//
// Updates: update_pass.h, each rule in the order of operations of its file in rules/.
//
// Sum of squares: element i goes to partial sum i mod 16, in order; each square is exact in double
// for the narrower types. Then the 16 sums are added in a fixed tree: s[j] += s[j + 8], 4, 2, 1.
#include "optimizer/kernels/optimizer_kernel_table.h"

#include "optimizer/kernels/rules/adagrad.h"
#include "optimizer/kernels/rules/adam.h"
#include "optimizer/kernels/rules/lion.h"
#include "optimizer/kernels/rules/sgd.h"
#include "optimizer/kernels/update_pass.h"
#include "runtime/base/simd_vector.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

// One pass over a shard by `Rule`.
template <typename Rule, typename Gradient, typename Working>
void Update(const StepConstants& constants, const void* gradient, float* master,
            float* const* states, void* working, size_t count) {
  UpdatePass<Rule, Gradient, Working> pass(constants, gradient, master, states, working);
  // What the model works with is the master, or it is written too.
  if (working == master) {
    pass.template Run<false>(count);
  } else {
    pass.template Run<true>(count);
  }
}

constexpr size_t kSums = 16;
constexpr size_t kDoubleLanes = kVectorBytes / sizeof(double);
constexpr size_t kSumVectors = kSums / kDoubleLanes;

// Where the square has no more digits than a double, one rounding is two.
RZ_SIMD_INLINE void AddExactSquare(F64 x, F64& sum) {
#if defined(__AVX512F__)
  sum = (F64)_mm512_fmadd_pd((__m512d)x, (__m512d)x, (__m512d)sum);
#elif defined(__AVX2__)
  sum = (F64)_mm256_fmadd_pd((__m256d)x, (__m256d)x, (__m256d)sum);
#else
  sum += x * x;
#endif
}

// Adds the squares of 16 elements, each to its own sum.
template <typename C>
RZ_SIMD_INLINE void AddSquares(const unsigned char* from, F64 (&sums)[kSumVectors]) {
  if constexpr (C::kLanes == kDoubleLanes) {
    for (size_t j = 0; j < kSumVectors; ++j) {
      const F64 x = C::Load(from + j * kDoubleLanes * C::kBytes);
      sums[j] += x * x;
    }
  } else {
    for (size_t j = 0; j < kSumVectors; j += 2) {
      const F32 x = C::Load(from + j * kDoubleLanes * C::kBytes);
      AddExactSquare(LowerToDouble(x), sums[j]);
      AddExactSquare(UpperToDouble(x), sums[j + 1]);
    }
  }
}

template <typename C>
void AddSquaresOf(const void* data, size_t count, double* sums_of) {
  const unsigned char* from = static_cast<const unsigned char*>(data);
  F64 sums[kSumVectors];
  __builtin_memcpy(sums, sums_of, sizeof(sums));
  for (; count >= kSums; count -= kSums) {
    AddSquares<C>(from, sums);
    from += kSums * C::kBytes;
  }
  if (count > 0) {
    // Zeros add nothing: a sum of squares is never -0.
    alignas(kVectorBytes) unsigned char padded[kSums * C::kBytes] = {};
    __builtin_memcpy(padded, from, count * C::kBytes);
    AddSquares<C>(padded, sums);
  }
  __builtin_memcpy(sums_of, sums, sizeof(sums));
}

// -1 in lanes that are infinite or NaN: all bits of the exponent are set.
RZ_SIMD_INLINE I32 NonFiniteLanes(F32 x) {
  return (I32)(((U32)x & 0x7f800000u) == U32{} + 0x7f800000u);
}
RZ_SIMD_INLINE I64 NonFiniteLanes(F64 x) {
  constexpr uint64_t kExponent = 0x7ff0000000000000u;
  return (I64)(((U64)x & kExponent) == U64{} + kExponent);
}

template <typename C>
int64_t CountNonFinite(const void* data, size_t count) {
  // Lanes of 32 bits are emptied before they can overflow.
  constexpr size_t kBlock = size_t{1} << 24;
  const unsigned char* from = static_cast<const unsigned char*>(data);
  int64_t total = 0;
  while (count > 0) {
    decltype(NonFiniteLanes(typename C::Vector{})) negative = {};
    size_t left = count < kBlock ? count : kBlock;
    count -= left;
    for (; left >= C::kLanes; left -= C::kLanes) {
      negative += NonFiniteLanes(C::Load(from));
      from += C::kLanes * C::kBytes;
    }
    if (left > 0) {
      negative += NonFiniteLanes(LoadSome<C>(from, left));
      from += left * C::kBytes;
    }
    for (size_t lane = 0; lane < C::kLanes; ++lane) total -= negative[lane];
  }
  return total;
}

using Float = Code<DType::kFloat32>;
using Double = Code<DType::kFloat64>;
using BFloat16 = Code<DType::kBFloat16>;
using Float16 = Code<DType::kFloat16>;

template <typename Rule>
constexpr UpdateKernels KernelsOf() {
  return {.state_count = Rule::kStates,
          .by_dtype = {{Update<Rule, Float, Float>, nullptr, Update<Rule, Float, BFloat16>,
                        Update<Rule, Float, Float16>},
                       {},
                       {Update<Rule, BFloat16, Float>, nullptr, Update<Rule, BFloat16, BFloat16>,
                        Update<Rule, BFloat16, Float16>},
                       {Update<Rule, Float16, Float>, nullptr, Update<Rule, Float16, BFloat16>,
                        Update<Rule, Float16, Float16>}}};
}

}  // namespace

// Rules in the order of UpdateRule.
constinit const OptimizerKernelTable kOptimizerKernelTable = {
    .update = {KernelsOf<AdamWRule>(), KernelsOf<AdamRule>(), KernelsOf<SgdRule>(),
               KernelsOf<MomentumRule>(), KernelsOf<NesterovRule>(), KernelsOf<LionRule>(),
               KernelsOf<AdagradRule>()},
    .add_squares = {AddSquaresOf<Float>, AddSquaresOf<Double>, AddSquaresOf<BFloat16>,
                    AddSquaresOf<Float16>},
    .count_non_finite = {CountNonFinite<Float>, CountNonFinite<Double>, CountNonFinite<BFloat16>,
                         CountNonFinite<Float16>},
};

}  // namespace rz::RZ_SIMD_NAMESPACE
