#include "runtime/launch/launched_rank.h"

#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/fnv_hash.h"
#include "runtime/base/status_macros.h"
#include "runtime/launch/slurm_nodes.h"
#include "runtime/rendezvous/limits.h"

namespace rz {
namespace {

// What a launcher calls what it says.
struct Names {
  const char* launcher;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
};

constexpr Names kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""};
constexpr Names kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

constexpr char kByHand[] =
    "; otherwise say who this is by RZ_RENDEZVOUS, RZ_WORLD_SIZE and RZ_RANK, or RZ_WORLD_SIZE=1 "
    "for a world of one";

// Ports of several nodes' steps: below those that the system gives away by itself.
constexpr uint64_t kFirstPort = 20000;
constexpr uint64_t kPorts = 12000;

bool IsSet(const GetVariable& get, const char* name) { return VariableText(get, name).has_value(); }

// "NAME=value", or "NAME is not set".
std::string Shown(const GetVariable& get, const char* name) {
  const std::optional<std::string> value = VariableText(get, name);
  return value.has_value() ? absl::StrCat(name, "=", absl::CHexEscape(*value))
                           : absl::StrCat(name, " is not set");
}

absl::Status Missing(const Names& names, const std::string& found, const char* missing) {
  return absl::InvalidArgumentError(absl::StrCat("environment: ", found, " but ", missing,
                                                 " is not set: ", names.launcher, " sets both",
                                                 kByHand));
}

absl::StatusOr<int> Required(const GetVariable& get, const Names& names, const char* name,
                             const char* beside, int min, int max) {
  RZ_ASSIGN_OR_RETURN(const std::optional<int> value, VariableNumber(get, name, min, max));
  if (!value.has_value()) return Missing(names, Shown(get, beside), name);
  return *value;
}

absl::Status CheckBelow(const GetVariable& get, const char* name, int value, const char* bound_name,
                        int bound) {
  if (value < bound) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("environment: ", Shown(get, name), " is outside ",
                                                 bound_name, "=", bound, ": expected 0 to ",
                                                 bound - 1));
}

absl::StatusOr<LaunchedRank> ReadRank(const GetVariable& get, const Names& names) {
  LaunchedRank found;
  found.launcher = names.launcher;
  RZ_ASSIGN_OR_RETURN(found.world_size,
                      Required(get, names, names.world_size, names.rank, 1, limits::kMaxWorldSize));
  RZ_ASSIGN_OR_RETURN(
      found.rank, Required(get, names, names.rank, names.world_size, 0, limits::kMaxWorldSize - 1));
  RZ_RETURN_IF_ERROR(CheckBelow(get, names.rank, found.rank, names.world_size, found.world_size));
  RZ_ASSIGN_OR_RETURN(found.local_rank, VariableNumber(get, names.local_rank, 0,
                                                       static_cast<int>(limits::kMaxLocalIndex)));
  return found;
}

absl::Status NeedsRendezvous(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(
      why,
      "start `rz_rendezvous --listen HOST:PORT --insecure --token-file F` on one of the hosts, and "
      "set RZ_RENDEZVOUS=HOST:PORT and RZ_TOKEN_FILE=F for all ranks"));
}

// Whether the launcher has all ranks on this host; nothing where it does not say.
absl::StatusOr<std::optional<bool>> OnOneHost(const GetVariable& get, const Names& names,
                                              const LaunchedRank& found) {
  RZ_ASSIGN_OR_RETURN(const std::optional<int> local_size,
                      VariableNumber(get, names.local_size, 1, found.world_size));
  if (!local_size.has_value()) return std::optional<bool>();
  if (found.local_rank.has_value()) {
    RZ_RETURN_IF_ERROR(
        CheckBelow(get, names.local_rank, *found.local_rank, names.local_size, *local_size));
  }
  return std::optional<bool>(*local_size == found.world_size);
}

Meeting OfSocket(const Names& names, std::string run) {
  Meeting meeting;
  meeting.rank_variable = names.rank;
  meeting.run = std::move(run);
  return meeting;
}

// Of Open MPI and PMI: a socket file where all ranks are on one host.
absl::StatusOr<LaunchedRank> ReadMpi(const GetVariable& get, const Names& names) {
  RZ_ASSIGN_OR_RETURN(LaunchedRank found, ReadRank(get, names));
  RZ_ASSIGN_OR_RETURN(const std::optional<bool> one_host, OnOneHost(get, names, found));
  if (found.world_size == 1) return found;
  if (!one_host.value_or(false)) {
    found.meeting = NeedsRendezvous(absl::StrCat(
        names.launcher, one_host ? " has ranks on several hosts (" : " does not say which ranks (",
        Shown(get, names.local_size), ", ", Shown(get, names.world_size),
        one_host ? ") and names no address where they could meet: " : ") are on this host: "));
    return found;
  }
  found.meeting = OfSocket(names, VariableText(get, "PMIX_NAMESPACE").value_or(""));
  return found;
}

absl::StatusOr<Meeting> MeetOverNodes(const GetVariable& get, const std::string& step) {
  const std::optional<std::string> nodes = VariableText(get, "SLURM_STEP_NODELIST");
  if (!nodes.has_value()) {
    return Missing(kSlurm, Shown(get, "SLURM_STEP_NUM_NODES"), "SLURM_STEP_NODELIST");
  }
  const absl::StatusOr<std::string> first = FirstSlurmNode(*nodes);
  if (!first.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: SLURM_STEP_NODELIST: ", first.status().message()));
  }
  const uint64_t port = kFirstPort + FnvHash(step) % kPorts;
  if (!IsSet(get, "RZ_TOKEN_FILE")) {
    return NeedsRendezvous(absl::StrCat(
        "the step is on several nodes (", Shown(get, "SLURM_STEP_NODELIST"),
        "): set RZ_TOKEN_FILE to a secret that all nodes can read (mode 0600: head -c 32 "
        "/dev/urandom | base64), and rank 0 serves on ",
        *first, ":", port, ", unencrypted, asking for it; or "));
  }
  Meeting meeting;
  meeting.address = absl::StrCat(*first, ":", port);
  meeting.listen = absl::StrCat("[::]:", port);
  meeting.job = absl::StrCat("slurm-", step);
  meeting.insecure = true;
  return meeting;
}

absl::StatusOr<LaunchedRank> ReadSlurm(const GetVariable& get) {
  RZ_ASSIGN_OR_RETURN(LaunchedRank found, ReadRank(get, kSlurm));
  if (found.world_size == 1) return found;
  RZ_ASSIGN_OR_RETURN(const int nodes, Required(get, kSlurm, "SLURM_STEP_NUM_NODES",
                                                "SLURM_STEP_ID", 1, found.world_size));
  const std::string step = absl::StrCat(VariableText(get, "SLURM_JOB_ID").value_or("0"), ".",
                                        *VariableText(get, "SLURM_STEP_ID"));
  if (nodes == 1) {
    found.meeting = OfSocket(kSlurm, step);
    return found;
  }
  found.meeting = MeetOverNodes(get, step);
  return found;
}

absl::StatusOr<LaunchedRank> ReadTorchrun(const GetVariable& get) {
  RZ_ASSIGN_OR_RETURN(LaunchedRank found, ReadRank(get, kTorchrun));
  RZ_ASSIGN_OR_RETURN(const std::optional<bool> one_host, OnOneHost(get, kTorchrun, found));
  if (found.world_size == 1) return found;
  const std::optional<std::string> host = VariableText(get, "MASTER_ADDR");
  if (!host.has_value()) return Missing(kTorchrun, Shown(get, "WORLD_SIZE"), "MASTER_ADDR");
  RZ_ASSIGN_OR_RETURN(const int port,
                      Required(get, kTorchrun, "MASTER_PORT", "MASTER_ADDR", 1, 65534));
  const bool loopback = *host == "localhost" || *host == "::1" || absl::StartsWith(*host, "127.");
  if (!one_host.value_or(false) && !loopback) {
    found.meeting = NeedsRendezvous(
        absl::StrCat("torchrun has ranks on several hosts (", Shown(get, "MASTER_ADDR"), ", ",
                     Shown(get, "LOCAL_WORLD_SIZE"), ", ", Shown(get, "WORLD_SIZE"),
                     "), and rank 0 by itself serves this host alone: "));
    return found;
  }
  Meeting meeting;
  meeting.address = absl::StrCat("127.0.0.1:", port + 1);  // torchrun's own store holds MASTER_PORT
  found.meeting = meeting;
  return found;
}

// srun --mpi=pmi2 sets PMI's variables as well, and they agree.
bool PmiOfSlurm(const GetVariable& get) {
  return IsSet(get, "SLURM_STEP_ID") && !IsSet(get, kPmi.local_size) &&
         VariableText(get, kPmi.rank) == VariableText(get, kSlurm.rank) &&
         VariableText(get, kPmi.world_size) == VariableText(get, kSlurm.world_size);
}

bool Speaks(const GetVariable& get, const Names& names) {
  return IsSet(get, names.rank) || IsSet(get, names.world_size);
}

}  // namespace

absl::StatusOr<std::optional<LaunchedRank>> FindLaunchedRank(const GetVariable& get) {
  if (IsSet(get, "TORCHELASTIC_RUN_ID") && Speaks(get, kTorchrun)) return ReadTorchrun(get);
  if (Speaks(get, kOpenMpi)) return ReadMpi(get, kOpenMpi);
  if (Speaks(get, kPmi) && !PmiOfSlurm(get)) return ReadMpi(get, kPmi);
  if (IsSet(get, "PMI_PORT") && IsSet(get, "PMI_ID")) {
    return absl::InvalidArgumentError(absl::StrCat("environment: ", Shown(get, "PMI_PORT"),
                                                   " but PMI_RANK and PMI_SIZE are not set: leave "
                                                   "-pmi-port out of mpirun's command line",
                                                   kByHand));
  }
  if (IsSet(get, "SLURM_STEP_ID")) return ReadSlurm(get);
  if (Speaks(get, kTorchrun)) return ReadTorchrun(get);
  return std::optional<LaunchedRank>();
}

}  // namespace rz
