// One pass of an optimizer over a shard: for sources of simd_library() only.
//
// Two vectors at a time, which are looked at together for NaN: where there is none, as ever,
// nothing is made canonical, and rounding to bfloat16 need not tell them apart. The last,
// incomplete vector goes through zero-padded copies. So no element's result depends on where it
// stands.
#ifndef RINGZERO_OPTIMIZER_KERNELS_UPDATE_PASS_H_
#define RINGZERO_OPTIMIZER_KERNELS_UPDATE_PASS_H_

#include "optimizer/kernels/rules/rule_math.h"
#include "optimizer/kernels/update_rule.h"
#include "runtime/base/simd_vector.h"

namespace rz::RZ_SIMD_NAMESPACE {
namespace {

// Whether a lane of either is NaN.
#if defined(__AVX512F__)
RZ_SIMD_INLINE bool HasNan(F32 a, F32 b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q) != 0;
}
#elif defined(__AVX2__)
RZ_SIMD_INLINE bool HasNan(F32 a, F32 b) {
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q)) != 0;
}
#else
RZ_SIMD_INLINE bool HasNan(F32 a, F32 b) {
  const U64 lanes = (U64)((a != a) | (b != b));
  return (lanes[0] | lanes[1]) != 0;
}
#endif

// Stores two vectors that have no NaN one after the other: the bits of C::Store.
template <typename C>
struct NumberStore {
  RZ_SIMD_INLINE static void Store(unsigned char* to, F32 a, F32 b) {
    C::Store(to, a);
    C::Store(to + C::kLanes * C::kBytes, b);
  }
};

template <>
struct NumberStore<Code<DType::kBFloat16>> {
  RZ_SIMD_INLINE static void Store(unsigned char* to, F32 a, F32 b) {
    const U32 lower = RoundToUpperHalf(a) >> 16, upper = RoundToUpperHalf(b) >> 16;
    // Packed within each 16 bytes of a register: 8 of `lower`, 8 of `upper`, and so on.
#if defined(__AVX512F__)
    const __m512i packed = _mm512_packus_epi32((__m512i)lower, (__m512i)upper);
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    StoreVector(to, _mm512_maskz_permutexvar_epi64(0xff, order, packed));
#elif defined(__AVX2__)
    const __m256i packed = _mm256_packus_epi32((__m256i)lower, (__m256i)upper);
    StoreVector(to, _mm256_permute4x64_epi64(packed, 0xd8));
#else
    StoreVector(to, Shorten(lower));
    StoreVector(to + sizeof(U16Half), Shorten(upper));
#endif
  }
};

// A vector's values as a rule leaves them.
template <typename Rule>
struct Updated {
  F32 master;
  RuleStates states;

  // Where a state is NaN the master is.
  RZ_SIMD_INLINE void MakeCanonical() {
    master = CanonicalNan(master);
    for (size_t s = 0; s < Rule::kStates; ++s) states[s] = CanonicalNan(states[s]);
  }
};

// One pass over a shard by `Rule`.
template <typename Rule, typename Gradient, typename Working>
class UpdatePass {
 public:
  RZ_SIMD_INLINE UpdatePass(const StepConstants& constants, const void* gradient, float* master,
                            float* const* states, void* working)
      : rule_(constants),
        gradient_(static_cast<const unsigned char*>(gradient)),
        master_(reinterpret_cast<unsigned char*>(master)),
        working_(static_cast<unsigned char*>(working)) {
    for (size_t s = 0; s < Rule::kStates; ++s) {
      states_[s] = reinterpret_cast<unsigned char*>(states[s]);
    }
  }

  // `working` is written too, unless the master is what the model works with.
  template <bool working>
  RZ_SIMD_INLINE void Run(size_t count) {
    for (; count >= 2 * kLanes; count -= 2 * kLanes) {
      Updated<Rule> a = Apply(0), b = Apply(1);
      if (HasNan(a.master, b.master)) [[unlikely]] {
        a.MakeCanonical();
        b.MakeCanonical();
        if constexpr (working) {
          Working::Store(working_, a.master);
          Working::Store(working_ + kLanes * Working::kBytes, b.master);
        }
      } else if constexpr (working) {
        NumberStore<Working>::Store(working_, a.master, b.master);
      }
      Store(0, a);
      Store(1, b);
      Advance(2);
    }
    if (count >= kLanes) {
      Updated<Rule> a = Apply(0);
      a.MakeCanonical();
      Store(0, a);
      if constexpr (working) Working::Store(working_, a.master);
      Advance(1);
      count -= kLanes;
    }
    if (count > 0) RunSome<working>(count);
  }

 private:
  using Float = Code<DType::kFloat32>;
  static constexpr size_t kLanes = Float::kLanes;

  RZ_SIMD_INLINE Updated<Rule> Apply(size_t vector) const {
    Updated<Rule> x;
    for (size_t s = 0; s < Rule::kStates; ++s) {
      x.states[s] = Float::Load(states_[s] + vector * kLanes * Float::kBytes);
    }
    x.master = rule_.Apply(Gradient::Load(gradient_ + vector * kLanes * Gradient::kBytes),
                           Float::Load(master_ + vector * kLanes * Float::kBytes), x.states);
    return x;
  }

  RZ_SIMD_INLINE void Store(size_t vector, const Updated<Rule>& x) const {
    Float::Store(master_ + vector * kLanes * Float::kBytes, x.master);
    for (size_t s = 0; s < Rule::kStates; ++s) {
      Float::Store(states_[s] + vector * kLanes * Float::kBytes, x.states[s]);
    }
  }

  RZ_SIMD_INLINE void Advance(size_t vectors) {
    const size_t elements = vectors * kLanes;
    gradient_ += elements * Gradient::kBytes;
    master_ += elements * Float::kBytes;
    for (size_t s = 0; s < Rule::kStates; ++s) states_[s] += elements * Float::kBytes;
    working_ += elements * Working::kBytes;
  }

  // The last elements, fewer than a vector.
  template <bool working>
  void RunSome(size_t count) const {
    Updated<Rule> x;
    for (size_t s = 0; s < Rule::kStates; ++s) x.states[s] = LoadSome<Float>(states_[s], count);
    x.master = rule_.Apply(LoadSome<Gradient>(gradient_, count), LoadSome<Float>(master_, count),
                           x.states);
    x.MakeCanonical();
    StoreSome<Float>(master_, x.master, count);
    for (size_t s = 0; s < Rule::kStates; ++s) StoreSome<Float>(states_[s], x.states[s], count);
    if constexpr (working) StoreSome<Working>(working_, x.master, count);
  }

  const Rule rule_;
  const unsigned char* gradient_;
  unsigned char* master_;
  unsigned char* states_[kMaxOptimizerStates] = {};
  unsigned char* working_;
};

}  // namespace
}  // namespace rz::RZ_SIMD_NAMESPACE

#endif  // RINGZERO_OPTIMIZER_KERNELS_UPDATE_PASS_H_
