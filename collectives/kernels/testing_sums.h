// Sums of 16-bit floats whose errors are known: for tests of error bounds.
#ifndef RINGZERO_COLLECTIVES_KERNELS_TESTING_SUMS_H_
#define RINGZERO_COLLECTIVES_KERNELS_TESTING_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace rz::testing {

enum class SumKind : uint8_t {
  kBothSigns,
  kPositive,
  kCancelling,  // large ones of both signs
  kStagnating,  // one large, all others half its last place: lost at every hop that rounds
};
inline constexpr SumKind kAllSumKinds[] = {SumKind::kBothSigns, SumKind::kPositive,
                                           SumKind::kCancelling, SumKind::kStagnating};
std::string NameOf(SumKind kind);

// kBFloat16 or kFloat16: 8-bit floats overflow with sums of many ranks.
class TestingSums {
 public:
  // `count` sums of `ranks` inputs each, at most 64. The inputs' exponents lie so close together
  // that double adds them exactly.
  TestingSums(SumKind kind, DType dtype, int ranks, size_t count);

  // What a rank gives.
  const std::vector<uint16_t>& input(int rank) const { return inputs_[static_cast<size_t>(rank)]; }

  double Error(size_t i, uint16_t sum) const;

  // The bounds of reduce_kernel.h.
  double BoundOfOneRounding(size_t i, uint16_t sum) const;
  double BoundOfEveryHop(size_t i) const;

 private:
  double ValueOf(uint16_t code) const;

  DType dtype_;
  std::vector<std::vector<uint16_t>> inputs_;
  std::vector<double> exact_;       // the sum
  std::vector<double> magnitudes_;  // the sum of absolute values
};

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_KERNELS_TESTING_SUMS_H_
