// The optimizer's kernels, compiled once a level.
//
// AdamW: vector by vector in the order of operations of adamw.h; the last, incomplete vector
// through zero-padded copies, so that no element's result depends on where it stands.
//
// Sum of squares: element i goes to partial sum i mod 16, in order; each square is exact in double
// for the narrower types. Then the 16 sums are added in a fixed tree: s[j] += s[j + 8], 4, 2, 1.
#include "optimizer/kernels/optimizer_kernel_table.h"

#include "runtime/base/simd_vector.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

using Float = Code<DType::kFloat32>;

unsigned char* Bytes(void* p) { return static_cast<unsigned char*>(p); }
const unsigned char* Bytes(const void* p) { return static_cast<const unsigned char*>(p); }

// IEEE square root, correctly rounded at every level. NaN of a negative lane is made canonical
// later.
RZ_SIMD_INLINE F32 SquareRoot(F32 x) {
#if defined(__AVX512F__)
  return (F32)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#elif defined(__AVX2__)
  return (F32)_mm256_sqrt_ps((__m256)x);
#else
  F32 root;
  for (size_t lane = 0; lane < kVectorBytes / sizeof(float); ++lane) {
    root[lane] = __builtin_sqrtf(x[lane]);
  }
  return root;
#endif
}

struct AdamWState {
  F32 master, m, v;
};

// The broadcast constants, and one vector's step.
class StepOnVector {
 public:
  RZ_SIMD_INLINE explicit StepOnVector(const AdamWConstants& c)
      : grad_scale_(F32{} + c.grad_scale),
        beta1_(F32{} + c.beta1),
        one_minus_beta1_(F32{} + c.one_minus_beta1),
        beta2_(F32{} + c.beta2),
        one_minus_beta2_(F32{} + c.one_minus_beta2),
        decay_(F32{} + c.decay),
        step_size_(F32{} + c.step_size),
        inverse_root_2_(F32{} + c.inverse_root_2),
        eps_(F32{} + c.eps) {}

  RZ_SIMD_INLINE AdamWState Apply(F32 gradient, AdamWState old) const {
    AdamWState lane;
    const F32 g = gradient * grad_scale_;
    lane.m = CanonicalNan(beta1_ * old.m + one_minus_beta1_ * g);
    lane.v = CanonicalNan(beta2_ * old.v + one_minus_beta2_ * (g * g));
    const F32 denominator = SquareRoot(lane.v) * inverse_root_2_ + eps_;
    lane.master = CanonicalNan(old.master * decay_ - step_size_ * (lane.m / denominator));
    return lane;
  }

 private:
  F32 grad_scale_, beta1_, one_minus_beta1_, beta2_, one_minus_beta2_;
  F32 decay_, step_size_, inverse_root_2_, eps_;
};

template <typename Gradient, typename Working>
void AdamW(const AdamWConstants& constants, const void* gradient, void* master, void* m, void* v,
           void* working, size_t count) {
  const StepOnVector step(constants);
  const unsigned char* gradient_at = Bytes(gradient);
  unsigned char* master_at = Bytes(master);
  unsigned char* m_at = Bytes(m);
  unsigned char* v_at = Bytes(v);
  unsigned char* working_at = Bytes(working);
  for (; count >= Float::kLanes; count -= Float::kLanes) {
    const AdamWState lane =
        step.Apply(Gradient::Load(gradient_at),
                   {Float::Load(master_at), Float::Load(m_at), Float::Load(v_at)});
    Float::Store(master_at, lane.master);
    Float::Store(m_at, lane.m);
    Float::Store(v_at, lane.v);
    Working::Store(working_at, lane.master);
    gradient_at += Float::kLanes * Gradient::kBytes;
    master_at += Float::kLanes * Float::kBytes;
    m_at += Float::kLanes * Float::kBytes;
    v_at += Float::kLanes * Float::kBytes;
    working_at += Float::kLanes * Working::kBytes;
  }
  if (count == 0) return;
  const AdamWState lane = step.Apply(LoadSome<Gradient>(gradient_at, count),
                                     {LoadSome<Float>(master_at, count),
                                      LoadSome<Float>(m_at, count), LoadSome<Float>(v_at, count)});
  StoreSome<Float>(master_at, lane.master, count);
  StoreSome<Float>(m_at, lane.m, count);
  StoreSome<Float>(v_at, lane.v, count);
  StoreSome<Working>(working_at, lane.master, count);
}

constexpr size_t kSums = 16;
constexpr size_t kDoubleLanes = kVectorBytes / sizeof(double);
constexpr size_t kSumVectors = kSums / kDoubleLanes;

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
      const F64 lower = LowerToDouble(x), upper = UpperToDouble(x);
      sums[j] += lower * lower;
      sums[j + 1] += upper * upper;
    }
  }
}

template <typename C>
double SumOfSquares(const void* data, size_t count) {
  const unsigned char* from = Bytes(data);
  F64 sums[kSumVectors] = {};
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
  double tree[kSums];
  __builtin_memcpy(tree, sums, sizeof(tree));
  for (size_t half = kSums / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) tree[j] += tree[j + half];
  }
  return tree[0] == tree[0] ? tree[0] : __builtin_nan("");
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
  const unsigned char* from = Bytes(data);
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

using Double = Code<DType::kFloat64>;
using BFloat16 = Code<DType::kBFloat16>;
using Float16 = Code<DType::kFloat16>;

}  // namespace

constinit const OptimizerKernelTable kOptimizerKernelTable = {
    .adamw = {{AdamW<Float, Float>, nullptr, AdamW<Float, BFloat16>, AdamW<Float, Float16>},
              {},
              {AdamW<BFloat16, Float>, nullptr, AdamW<BFloat16, BFloat16>,
               AdamW<BFloat16, Float16>},
              {AdamW<Float16, Float>, nullptr, AdamW<Float16, BFloat16>, AdamW<Float16, Float16>}},
    .sum_of_squares = {SumOfSquares<Float>, SumOfSquares<Double>, SumOfSquares<BFloat16>,
                       SumOfSquares<Float16>},
    .count_non_finite = {CountNonFinite<Float>, CountNonFinite<Double>, CountNonFinite<BFloat16>,
                         CountNonFinite<Float16>},
};

}  // namespace rz::RZ_SIMD_NAMESPACE
