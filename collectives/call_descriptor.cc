#include "collectives/call_descriptor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace rz {
namespace {

constexpr size_t kWords = sizeof(CallDescriptor) / sizeof(uint64_t);
constexpr size_t kPayloadWord = offsetof(CallDescriptor, payload_bytes) / sizeof(uint64_t);
constexpr int kPayloadShift = offsetof(CallDescriptor, payload_bytes) % sizeof(uint64_t) * 8;

// The descriptor as numbers, without what says nothing about the call.
std::array<uint64_t, kWords> WordsOf(const CallDescriptor& call) {
  auto words = std::bit_cast<std::array<uint64_t, kWords>>(call);
  words[kPayloadWord] &= ~(uint64_t{0xffff} << kPayloadShift);
  return words;
}

// Odd multipliers for each word (fractional digits of pi, as in Blowfish).
constexpr uint64_t kMultipliers[kWords] = {
    0x243f6a8885a308d3, 0x13198a2e03707345, 0xa4093822299f31d1, 0x082efa98ec4e6c89,
    0x452821e638d01377, 0xbe5466cf34e90c6d, 0xc0ac29b7c97c50dd, 0x3f84d5b5b5470917};

uint64_t Product(uint64_t word, size_t index) {
  return (word ^ (word >> 32)) * kMultipliers[index];
}

// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t Finalize(uint64_t sum) {
  sum = (sum ^ (sum >> 30)) * 0xbf58476d1ce4e5b9u;
  sum = (sum ^ (sum >> 27)) * 0x94d049bb133111ebu;
  return sum ^ (sum >> 31);
}

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("not the description of a call: ", what));
}

// What the short form leaves out, where the two differ in it.
std::string Details(const CallDescriptor& call, const CallDescriptor& other) {
  std::string text;
  if (call.counts_hash != other.counts_hash) {
    if (call.counts_hash == CallDescriptor::kShardKernel) {
      text = ", with a shard kernel";
    } else {
      absl::StrAppend(&text, ", counts of the ranks with hash ", absl::Hex(call.counts_hash));
    }
  }
  if (call.tile_chunk != other.tile_chunk) {
    absl::StrAppend(&text, ", tile_chunk ", call.tile_chunk);
  }
  if (call.slice_bytes != other.slice_bytes) {
    absl::StrAppend(&text, ", slices of ", call.slice_bytes, " bytes");
  }
  if (call.mode != other.mode) {
    absl::StrAppend(&text, ", mode ", std::string(NameOf(static_cast<NumericMode>(call.mode))));
  }
  if (call.algorithm != other.algorithm) {
    absl::StrAppend(&text, ", algorithm ",
                    std::string(NameOf(static_cast<Algorithm>(call.algorithm))));
  }
  if (call.number != other.number) absl::StrAppend(&text, ", as operation ", call.number);
  if (text.empty()) {
    absl::StrAppend(&text, ", after other calls (their hash is ", absl::Hex(call.history), ")");
  }
  return text;
}

}  // namespace

bool SameCall(const CallDescriptor& a, const CallDescriptor& b) {
  const std::array<uint64_t, kWords> x = WordsOf(a);
  const std::array<uint64_t, kWords> y = WordsOf(b);
  uint64_t difference = 0;
  for (size_t i = 0; i < kWords; ++i) difference |= x[i] ^ y[i];
  return difference == 0;
}

CallHashes HashesOf(const CallDescriptor& call) {
  const std::array<uint64_t, kWords> words = WordsOf(call);
  // Kind, dtype and op are the last three bytes of the first word.
  static_assert(offsetof(CallDescriptor, kind) == 5 && offsetof(CallDescriptor, op) == 7);
  constexpr uint64_t kNamed = ~uint64_t{0} << 40;
  uint64_t others = Product(words[0] & ~kNamed, 0);
  for (size_t i = 1; i < kWords; ++i) others += Product(words[i], i);
  // Eleven bits in which kind, dtype and op stand side by side, and what the rest adds to them.
  const uint32_t exact = (call.kind & 0xfu) | (call.dtype & 0xfu) << 4 | (call.op & 0x7u) << 8;
  CallHashes hashes;
  hashes.fingerprint = (exact ^ static_cast<uint32_t>(Finalize(others))) % kFingerprints;
  hashes.history_after = Finalize(others - Product(words[0] & ~kNamed, 0) + Product(words[0], 0));
  return hashes;
}

uint64_t HashOfCounts(absl::Span<const int64_t> counts, uint64_t before) {
  uint64_t hash = before + 1;
  for (int64_t count : counts) hash = Finalize(hash + Product(static_cast<uint64_t>(count), 0));
  return hash == 0 ? 1 : hash;
}

absl::StatusOr<CallDescriptor> DecodeCall(absl::Span<const std::byte> bytes) {
  if (bytes.size() < sizeof(CallDescriptor)) {
    return Malformed(
        absl::StrCat(bytes.size(), " bytes, at least ", sizeof(CallDescriptor), " are needed"));
  }
  CallDescriptor call;
  std::memcpy(&call, bytes.data(), sizeof call);
  if (call.magic != CallDescriptor::kMagic) return Malformed("it does not begin with RZCD");
  if (call.version != CallDescriptor::kVersion) {
    return Malformed(absl::StrCat("version ", call.version, ", this rank knows ",
                                  CallDescriptor::kVersion, ": run one build on all ranks"));
  }
  const auto in_range = [](uint8_t value, size_t count) {
    return value < count || value == CallDescriptor::kNotApplicable;
  };
  if (call.kind >= kCollectiveCount) return Malformed(absl::StrCat("collective ", call.kind));
  if (!in_range(call.dtype, std::size(kAllDTypes))) {
    return Malformed(absl::StrCat("dtype ", call.dtype));
  }
  if (!in_range(call.op, size_t{1} + static_cast<size_t>(ReduceOp::kFunction)))
    return Malformed(absl::StrCat("op ", call.op));
  if (call.algorithm >= kAlgorithmCount) {
    return Malformed(absl::StrCat("algorithm ", call.algorithm));
  }
  if (call.mode > static_cast<uint8_t>(NumericMode::kFast)) {
    return Malformed(absl::StrCat("mode ", call.mode));
  }
  if (call.number < 1 || call.count < 0 || call.tile_chunk < 0 ||
      call.root < CallDescriptor::kNoRoot) {
    return Malformed(absl::StrCat("operation ", call.number, ", count ", call.count,
                                  ", tile_chunk ", call.tile_chunk, ", root ", call.root));
  }
  return call;
}

std::string DescribeCall(const CallDescriptor& call) {
  const std::string_view kind = NameOf(static_cast<Collective>(call.kind));
  std::string text(kind);
  if (call.dtype != CallDescriptor::kNotApplicable) {
    absl::StrAppend(&text, " of ", call.count, " ",
                    std::string(NameOf(static_cast<DType>(call.dtype))));
  }
  if (call.op != CallDescriptor::kNotApplicable) {
    absl::StrAppend(&text, " ", std::string(NameOf(static_cast<ReduceOp>(call.op))));
  }
  if (call.function != 0) absl::StrAppend(&text, " ", call.function);
  if (call.root != CallDescriptor::kNoRoot) {
    const bool towards = kind == "reduce" || kind == "gather";
    absl::StrAppend(&text, towards ? " to root " : " from root ", call.root);
  }
  return text;
}

std::string DescribeMismatch(Rank rank_a, const CallDescriptor& a, Rank rank_b,
                             const CallDescriptor& b) {
  std::string text_a = DescribeCall(a);
  std::string text_b = DescribeCall(b);
  if (text_a == text_b) {
    absl::StrAppend(&text_a, Details(a, b));
    absl::StrAppend(&text_b, Details(b, a));
  }
  return absl::StrCat("operation ", std::max(a.number, b.number), ": rank ", rank_a.value(),
                      " called ", text_a, ", rank ", rank_b.value(), " called ", text_b);
}

}  // namespace rz
