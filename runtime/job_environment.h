// What the environment says about this process: which rank of which job it is, and where the ranks
// meet. Pure, except for FromProcess.
#ifndef RINGZERO_RUNTIME_JOB_ENVIRONMENT_H_
#define RINGZERO_RUNTIME_JOB_ENVIRONMENT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/types.h"
#include "runtime/launch/launched_rank.h"
#include "runtime/launch/variables.h"

namespace rz {

// rz_run sets all of RZ_*. Hand-started workers set only RZ_RENDEZVOUS and RZ_WORLD_SIZE. Where
// RZ_WORLD_SIZE is not set, who this is comes from mpirun, srun or torchrun (launched_rank.h); with
// none of them it is a world of one.
struct JobEnvironment {
  static constexpr absl::Duration kShortestTimeout = absl::Milliseconds(1);
  static constexpr absl::Duration kLongestTimeout = absl::Hours(1);

  std::string rendezvous;         // RZ_RENDEZVOUS, HOST:PORT
  std::string job = "default";    // RZ_JOB, or the meeting's
  int world_size = 1;             // RZ_WORLD_SIZE, or the launcher's
  std::optional<Rank> rank;       // RZ_RANK, or the launcher's; otherwise the rendezvous gives one
  std::optional<int> local_rank;  // RZ_LOCAL_RANK, or the launcher's
  std::string token_file;         // RZ_TOKEN_FILE
  uint64_t launch = 0;            // RZ_LAUNCH: which start of a launcher this process is of

  // Where no rendezvous is named: where the ranks of the launcher meet. Has a rank.
  std::optional<Meeting> meeting;

  // How long an unreachable rendezvous is tried (RZ_CONNECT_TIMEOUT), and how long the others are
  // waited for (RZ_JOIN_TIMEOUT). As "90", "90s" or "1.5m"; from 1 ms to 1 h.
  absl::Duration connect_timeout = absl::Seconds(60);
  absl::Duration join_timeout = absl::Seconds(300);

  // Otherwise it is alone: a world of one, without a rendezvous.
  bool InJob() const { return !rendezvous.empty() || meeting.has_value(); }

  //   InvalidArgument  a number or time that is none or out of range, a rank outside the world, a
  //                    world without a rendezvous or the reverse; the message names variable and
  //                    value; also why a launcher's ranks need RZ_RENDEZVOUS to meet
  static absl::StatusOr<JobEnvironment> Parse(const GetVariable& get);

  // Parse(getenv).
  static absl::StatusOr<JobEnvironment> FromProcess();
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_JOB_ENVIRONMENT_H_
