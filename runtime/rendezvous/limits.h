// Every limit of the rendezvous, in one table. Sizes that come from a peer are compared with these
// before anything is allocated or stored; tests stand at each limit and one past it.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_LIMITS_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace rz::limits {

// Major must match; minor may differ (a newer side asks for nothing an older one lacks).
inline constexpr uint32_t kProtocolMajor = 1;
inline constexpr uint32_t kProtocolMinor = 1;  // 1: survivors of a failed epoch

inline constexpr int kMaxWorldSize = 16384;
inline constexpr size_t kMaxJobs = 1024;          // running, or remembered for their verdict
inline constexpr size_t kMaxMembers = 4 * 16384;  // of all jobs together
inline constexpr size_t kMaxBarrierIds = 1024;    // of one epoch
inline constexpr size_t kMaxEndings = 4096;       // of launches, remembered; of all jobs together

inline constexpr size_t kMaxMessageBytes = 256 << 10;  // one request or response
inline constexpr size_t kMaxMetadataBytes = 8 << 10;
inline constexpr size_t kMaxServerMemoryBytes = 256 << 20;
inline constexpr int kMaxStreamsPerConnection = 32;
// What a page of addresses may hold: a response stays below kMaxMessageBytes with its framing.
inline constexpr size_t kMaxPageBytes = 192 << 10;

inline constexpr size_t kMaxJobIdBytes = 128;  // of [A-Za-z0-9._-]
inline constexpr size_t kMaxAddressBytes = 4 << 10;
inline constexpr size_t kMaxHostBytes = 256;
inline constexpr size_t kMaxBarrierIdBytes = 256;
inline constexpr size_t kMaxDetailBytes = 1 << 10;  // of a failure report
inline constexpr int64_t kMaxLocalIndex = 1 << 20;

inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 4 << 10;

// Ranks, or runs of ranks, that a message lists before it says how many more there are.
inline constexpr size_t kMaxListedRuns = 16;

inline constexpr absl::Duration kDefaultJoinTimeout = absl::Seconds(300);
inline constexpr absl::Duration kDefaultBarrierTimeout = absl::Seconds(300);
inline constexpr absl::Duration kDefaultConnectTimeout = absl::Seconds(60);
inline constexpr absl::Duration kMaxTimeout = absl::Hours(1);  // longer proposals are clamped
inline constexpr absl::Duration kRpcTimeout = absl::Seconds(10);

// A wait that takes longer says what it waits for.
inline constexpr absl::Duration kFirstNotice = absl::Seconds(5);

// How long a suspicion (a broken connection, one rank's word about another) waits for somebody who
// knows better, such as the launcher with the exit status.
inline constexpr absl::Duration kSuspicionGrace = absl::Milliseconds(500);
// How long a rank 0 that serves waits for those that have joined and not yet asked for the verdict.
inline constexpr absl::Duration kLastWords = absl::Seconds(5);
// How long after its Join a rank may take to open its Watch.
inline constexpr absl::Duration kWatchDue = absl::Seconds(30);

}  // namespace rz::limits

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_LIMITS_H_
