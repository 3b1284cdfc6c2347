// SplitMix64 (Steele, Lea and Flood, 2014): the same numbers for the same seed everywhere.
#ifndef RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_RANDOM_H_
#define RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_RANDOM_H_

#include <cstdint>

namespace rz {

class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // 0 .. bound - 1, bound >= 1.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  bool Coin() { return (Next() & 1) != 0; }

 private:
  uint64_t state_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_SIM_SIM_RANDOM_H_
