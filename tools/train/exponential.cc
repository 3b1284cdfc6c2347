// e^x = 2^n e^r with n the nearest integer of x / ln 2, so |r| <= ln 2 / 2, where the Taylor series
// to r^13 is exact to double precision. ln 2 comes in two parts (fdlibm's), the first with so few
// bits that n times it is exact.
#include "tools/train/exponential.h"

#include <bit>
#include <cstdint>

namespace rz {

double Exponential(double x) {
  constexpr double kSmallest = -700;
  constexpr double kInverseLn2 = 1.44269504088896338700;
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr int kTerms = 13;
  if (x != x) return x;
  if (x < kSmallest) return 0;
  const int64_t n = static_cast<int64_t>(x * kInverseLn2 - 0.5);
  const double r = (x - static_cast<double>(n) * kLn2High) - static_cast<double>(n) * kLn2Low;
  double sum = 1;
  for (int term = kTerms; term >= 1; --term) sum = 1 + sum * r / term;
  const double power = std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
  return sum * power;
}

}  // namespace rz
