// The 64-bit tag that UCX matches: {epoch 8 bits, source rank 14 bits, Tag 42 bits}. Every receive
// names its source, so the whole tag is compared. The epoch keeps late messages of an older
// membership apart.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_TAG_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_TAG_H_

#include <cstdint>

#include "runtime/base/types.h"
#include "runtime/transport/transport.h"

namespace rz {

inline constexpr int kUcxRankBits = 14;
inline constexpr int kUcxMaxWorldSize = 1 << kUcxRankBits;
inline constexpr uint64_t kUcxTagMask = ~uint64_t{0};

static_assert(8 + kUcxRankBits + kTagBits == 64);

constexpr uint64_t MakeUcxTag(Epoch epoch, Rank source, Tag tag) {
  return (static_cast<uint64_t>(epoch.value()) & 0xff) << (kUcxRankBits + kTagBits) |
         static_cast<uint64_t>(source.value()) << kTagBits | tag;
}

static_assert(MakeUcxTag(Epoch(0x1ff), Rank(kUcxMaxWorldSize - 1), kMaxTag) == kUcxTagMask);
static_assert(MakeUcxTag(Epoch(2), Rank(3), 5) == (uint64_t{2} << 56 | uint64_t{3} << 42 | 5));

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_TAG_H_
