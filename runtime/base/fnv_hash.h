// FNV-1a, 64 bits: a hash that is the same on every machine, for ranks to compare what they agree
// on. It resists nobody who wants two texts to collide.
//
// Source: Fowler, Noll, Vo, Eastlake, "The FNV Non-Cryptographic Hash Algorithm".
#ifndef RINGZERO_RUNTIME_BASE_FNV_HASH_H_
#define RINGZERO_RUNTIME_BASE_FNV_HASH_H_

#include <cstdint>
#include <string_view>

namespace rz {

inline constexpr uint64_t kFnvHashOfNothing = 0xcbf29ce484222325;

// Of what `hash` is of, with `text` after it.
constexpr uint64_t FnvHash(std::string_view text, uint64_t hash = kFnvHashOfNothing) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace rz

#endif  // RINGZERO_RUNTIME_BASE_FNV_HASH_H_
