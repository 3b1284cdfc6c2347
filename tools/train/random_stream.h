// Random numbers by position: number i of stream s under a seed is a pure function of (seed, s, i),
// the same on every machine, rank and library. For initial weights, the order of samples and
// synthetic data; not for secrets.
#ifndef RINGZERO_TOOLS_TRAIN_RANDOM_STREAM_H_
#define RINGZERO_TOOLS_TRAIN_RANDOM_STREAM_H_

#include <cstdint>

namespace rz {

class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, uint64_t stream)
      : key_(Mix(seed + kGolden) ^ Mix(stream * kGolden + 1)) {}

  // 64 random bits.
  constexpr uint64_t Bits(uint64_t index) const { return Mix(key_ + (index + 1) * kGolden); }

  // In [0, 1), a multiple of 2^-24: every value is a float.
  constexpr float Uniform(uint64_t index) const {
    return static_cast<float>(Bits(index) >> 40) * 0x1p-24f;
  }

  // In [0, bound), bound > 0; biased by less than bound / 2^64.
  constexpr uint64_t Below(uint64_t index, uint64_t bound) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Bits(index)) * bound) >> 64);
  }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

  // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
  static constexpr uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  uint64_t key_;
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_RANDOM_STREAM_H_
