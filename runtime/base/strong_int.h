// StrongInt: an integer that cannot be mixed up with another one. A Rank is not an Epoch although
// both are numbers; comparing, hashing and printing work, arithmetic is spelled out with value().
#ifndef RINGZERO_RUNTIME_BASE_STRONG_INT_H_
#define RINGZERO_RUNTIME_BASE_STRONG_INT_H_

#include <compare>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rz {

template <typename Tag, typename T>
class StrongInt {
 public:
  using ValueType = T;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(T value) : value_(value) {}

  constexpr T value() const { return value_; }

  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;

  template <typename H>
  friend H AbslHashValue(H state, StrongInt x) {
    return H::combine(std::move(state), x.value_);
  }

  friend std::ostream& operator<<(std::ostream& os, StrongInt x) {
    return os << absl::StrCat(x.value_);
  }

 private:
  T value_ = 0;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_STRONG_INT_H_
