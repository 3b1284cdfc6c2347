// CallDescriptor: one collective call as the ranks compare it, in a fixed 64 bytes.
//
// Ranks that make the same call have equal descriptors, and nothing in a descriptor tells a
// tensor's values. `history` is a hash of all calls before, so two ranks that agree on a call have
// agreed on every earlier one. The struct is its own wire format, version 2: little endian, no
// padding.
#ifndef RINGZERO_COLLECTIVES_CALL_DESCRIPTOR_H_
#define RINGZERO_COLLECTIVES_CALL_DESCRIPTOR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/algorithm.h"
#include "collectives/collective.h"
#include "runtime/base/dtype.h"
#include "runtime/base/types.h"

namespace rz {

struct CallDescriptor {
  static constexpr uint32_t kMagic = 0x44435a52;  // "RZCD"
  static constexpr uint8_t kVersion = 2;
  static constexpr uint8_t kNotApplicable = 0xff;  // dtype and op of calls that have none
  static constexpr int32_t kNoRoot = -1;
  static constexpr uint16_t kNoPayload = 0xffff;
  static constexpr uint64_t kShardKernel = 1;  // counts_hash of a call with a kernel

  uint32_t magic = kMagic;
  uint8_t version = kVersion;
  uint8_t kind = 0;                // Collective
  uint8_t dtype = kNotApplicable;  // DType
  uint8_t op = kNotApplicable;     // ReduceOp
  uint8_t algorithm = 0;           // Algorithm
  uint8_t mode = 0;                // NumericMode
  // Bytes of payload that follow on the wire, kNoPayload: none. Says nothing about the call.
  uint16_t payload_bytes = kNoPayload;
  int32_t root = kNoRoot;
  int64_t number = 0;  // of the operation, from 1
  int64_t count = 0;
  uint64_t counts_hash = 0;  // of the counts of all ranks, where they may differ; 0 otherwise
  int64_t tile_chunk = 0;
  uint32_t slice_bytes = 0;
  uint32_t function = 0;  // number of the caller's function that `op` is; 0: none
  uint64_t history = 0;
};

static_assert(sizeof(CallDescriptor) == 64 && std::is_trivially_copyable_v<CallDescriptor> &&
              std::has_unique_object_representations_v<CallDescriptor> &&
              std::endian::native == std::endian::little);

// The same call, made after the same calls.
bool SameCall(const CallDescriptor& a, const CallDescriptor& b);

// Of everything SameCall compares.
struct CallHashes {
  // The `history` of the call that follows.
  uint64_t history_after = 0;
  // Below kFingerprints. Calls that differ in kind, dtype or op alone never share one.
  uint32_t fingerprint = 0;
};
inline constexpr uint32_t kFingerprints = 1u << 11;
CallHashes HashesOf(const CallDescriptor& call);

// Hash of a list of counts, never 0; continues that of the counts before.
uint64_t HashOfCounts(absl::Span<const int64_t> counts, uint64_t before = 0);

// Reads the descriptor at the start of `bytes`.
//   InvalidArgument  too short, no descriptor, another version (the message has both), or a field
//                    out of its range
absl::StatusOr<CallDescriptor> DecodeCall(absl::Span<const std::byte> bytes);

// "all_reduce of 1000 float32 sum", "all_reduce of 8 int32 function 2", "broadcast of 8 int64 from
// root 2", "barrier". The descriptor has been made here or decoded.
std::string DescribeCall(const CallDescriptor& call);

// "operation 41: rank 1 called all_reduce of 1000 float32 sum, rank 2 called broadcast of 1000
// float32 from root 0"; where the short form does not show the difference, with what does.
std::string DescribeMismatch(Rank rank_a, const CallDescriptor& a, Rank rank_b,
                             const CallDescriptor& b);

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_CALL_DESCRIPTOR_H_
