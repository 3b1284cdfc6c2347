// What goes into Membership and what comes out: plain values.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_TYPES_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_TYPES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/base/strong_int.h"
#include "runtime/base/types.h"
#include "runtime/rendezvous/limits.h"

namespace rz {

// Names a request until it is answered; chosen by the caller, unique among the unanswered ones.
using Ticket = uint64_t;

// Random number a launcher draws for the processes it starts: tells them from those of an earlier
// start of the same job. 0: started by hand.
using LaunchId = StrongInt<struct LaunchTag, uint64_t>;

// A rank of one epoch, as one process holds it.
struct MemberId {
  std::string job;
  Epoch epoch;
  Rank rank;
  Incarnation incarnation;
};

struct JoinRequest {
  std::string job;
  int64_t world_size = 0;
  std::optional<int64_t> wanted_rank;
  Incarnation incarnation;  // not 0
  std::string address;      // opaque, for the other ranks
  std::string host;
  std::optional<int64_t> local_index;  // position among the ranks of its host
  LaunchId launch;
  uint32_t protocol_major = limits::kProtocolMajor;
  uint32_t protocol_minor = limits::kProtocolMinor;
  uint64_t config_hash = 0;
  absl::Duration timeout = limits::kDefaultJoinTimeout;

  // Who this process was in an epoch that has failed: it wants to go on with those that are left,
  // and with so many at least. world_size and wanted_rank are not looked at.
  std::optional<MemberId> survivor_of;
  int64_t least_ranks = 1;

  // Its number at its launcher, where ranks have been given anew. Set by Membership.
  std::optional<Rank> launched_as;
};

struct BarrierRequest {
  MemberId member;
  std::string id;
  int64_t counter = 0;             // how often this rank has passed a barrier of this id
  std::vector<Rank> participants;  // ascending, without repetition; empty: all
  absl::Duration timeout = limits::kDefaultBarrierTimeout;
};

enum class FailureKind {
  kEnded,   // a launcher saw the process fail: by a signal, or with a status other than 0
  kExited,  // a launcher saw it exit with status 0: a failure only of a rank that has not left
  kSelf,    // a rank gives itself up
  kPeer,    // a rank cannot reach another one
};

struct FailureReport {
  std::string job;
  std::optional<Epoch> epoch;  // none: whatever epoch the job is in
  Rank rank;                   // who has failed
  FailureKind kind = FailureKind::kEnded;
  std::string detail;
  std::optional<MemberId> reporter;  // none for a launcher
  LaunchId launch;                   // a launcher's; 0: not said

  bool OfLauncher() const { return kind == FailureKind::kEnded || kind == FailureKind::kExited; }
};

// Why a job has failed: the first cause, the same for all.
struct Verdict {
  Epoch epoch;
  Rank rank;
  std::string message;

  absl::Status ToStatus() const { return absl::UnavailableError(message); }
};

using Addresses = std::vector<std::string>;  // by rank

struct Assignment {
  Rank rank;
  Epoch epoch;
  std::shared_ptr<const Addresses> addresses;
};

// A job whose ranks have not all come.
struct Gathering {
  int64_t world_size = 0;
  std::vector<Rank> missing;  // ascending, never empty
};

// The answer to a request. Each request gets exactly one, at once or later.
struct Reply {
  Ticket ticket = 0;
  absl::Status status;
  std::optional<Assignment> assignment = std::nullopt;  // of a Join that is OK
  // Where `status` tells of a failed job; also of a Watch that is OK but whose rank has not left,
  // and of a ReportFailure that is OK where the job has failed by now.
  std::optional<Verdict> verdict = std::nullopt;
};

using Replies = std::vector<Reply>;

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_MEMBERSHIP_TYPES_H_
