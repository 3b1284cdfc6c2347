// Communicators of the C interface: made, split, aborted, ended.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collectives/c_api/comm_handle.h"
#include "collectives/c_api/submit.h"
#include "collectives/limits.h"
#include "runtime/base/status_macros.h"

namespace rz::c_api {
namespace {

// Of an operation, at most.
constexpr absl::Duration kLongestTimeout = absl::Hours(24);

// How long a rebuild waits for ranks of which nothing is known.
constexpr absl::Duration kRebuildTimeout = absl::Seconds(30);

absl::StatusOr<CommunicatorOptions> ReadCommOptions(const rz_comm_options_t& given,
                                                    const JobSession& session) {
  CommunicatorOptions options;
  switch (given.numeric_mode) {
    case 0:
    case RZ_NUMERIC_DETERMINISTIC:
      options.numeric_mode = NumericMode::kDeterministic;
      break;
    case RZ_NUMERIC_FAST:
      options.numeric_mode = NumericMode::kFast;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("there is no numeric_mode ", given.numeric_mode));
  }
  options.algorithms = TextOf(given.algorithms);
  if (options.algorithms.empty()) options.algorithms = TextOf(std::getenv("RZ_ALGO"));
  RZ_ASSIGN_OR_RETURN(
      options.operation_timeout,
      ReadSeconds(given.timeout, "timeout", options.operation_timeout, kLongestTimeout));
  options.flight_dir = TextOf(given.flight_dir);
  options.check_calls = given.no_call_checks == 0;
  if (session.only_network()) options.link = LinkKind::kNetwork;
  return options;
}

absl::StatusOr<rz_comm_t*> MakeHandle(std::shared_ptr<JobSession> session,
                                      std::unique_ptr<Communicator> communicator,
                                      CommSettings settings) {
  auto made = std::make_unique<CommHandle>(std::move(session), std::move(communicator),
                                           std::move(settings));
  RZ_ASSIGN_OR_RETURN(void* const handle, CommTable::Get().Insert(made.get()));
  static_cast<void>(made.release());  // the table's
  return static_cast<rz_comm_t*>(handle);
}

// A communicator of all ranks of a job that has none.
absl::StatusOr<rz_comm_t*> MakeOfAllRanks(const std::shared_ptr<JobSession>& session,
                                          CommSettings settings) {
  // Another number each time: messages that nobody received carry the old one.
  settings.options.id = session->next_communicator_id++ % (kMaxCommunicatorId + 1);
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                      Communicator::Create(session->job().transport(), settings.options));
  if (settings.shares_memory) {
    if (const absl::Status shared = communicator->ShareMemory(); !shared.ok()) {
      return session->FirstCause(shared);
    }
  }
  return MakeHandle(session, std::move(communicator), std::move(settings));
}

absl::Status Create(rz_job_t* job, const rz_comm_options_t* options, rz_comm_t** comm) {
  RZ_ASSIGN_OR_RETURN(const auto found, JobTable::Get().Find(job));
  const std::shared_ptr<JobSession> session = found->session();
  RZ_ASSIGN_OR_RETURN(const auto use, session->Enter());
  RZ_ASSIGN_OR_RETURN(const rz_comm_options_t read,
                      ReadOptions(options, rz_comm_options_t(RZ_COMM_OPTIONS_INIT)));
  CommSettings settings;
  RZ_ASSIGN_OR_RETURN(settings.options, ReadCommOptions(read, *session));
  settings.shares_memory = read.no_shared_memory == 0;
  RZ_RETURN_IF_ERROR(session->failure());
  if (session->communicators > 0) {
    return absl::FailedPreconditionError(
        "the job has a communicator; make others of it with rz_comm_split");
  }
  RZ_ASSIGN_OR_RETURN(*comm, MakeOfAllRanks(session, std::move(settings)));
  return absl::OkStatus();
}

absl::Status Rebuild(rz_comm_t* failed, const rz_rebuild_options_t* options, rz_comm_t** comm) {
  RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(failed));
  RZ_ASSIGN_OR_RETURN(const rz_rebuild_options_t read,
                      ReadOptions(options, rz_rebuild_options_t(RZ_REBUILD_OPTIONS_INIT)));
  if (const int world = use->session->job().world_size();
      read.min_ranks < 0 || read.min_ranks > world) {
    return absl::InvalidArgumentError(absl::StrCat("min_ranks is ", read.min_ranks,
                                                   "; it may be 0 to the job's ", world, " ranks"));
  }
  RZ_ASSIGN_OR_RETURN(
      const absl::Duration wait,
      ReadSeconds(read.timeout, "timeout", kRebuildTimeout, JobEnvironment::kLongestTimeout));
  absl::Status failure = use->session->failure();
  if (failure.ok()) failure = use->communicator->status();
  if (failure.ok()) {
    return absl::FailedPreconditionError(
        "the communicator has not failed, as far as calls have shown; rz_comm_split makes others");
  }
  // So that the rendezvous knows of the failure too.
  static_cast<void>(use->session->FirstCause(failure));
  RZ_ASSIGN_OR_RETURN(const std::shared_ptr<JobSession> session,
                      use->session->Rebuild(std::max(read.min_ranks, 1), wait));
  RZ_ASSIGN_OR_RETURN(const auto use_of_rebuilt, session->Enter());
  RZ_ASSIGN_OR_RETURN(*comm, MakeOfAllRanks(session, use->settings));
  return absl::OkStatus();
}

absl::Status Split(rz_comm_t* comm, int32_t color, int32_t key, rz_comm_t** new_comm) {
  RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
  if (color < RZ_SPLIT_NOCOLOR) {
    return absl::InvalidArgumentError(
        absl::StrCat("color is ", color, "; it may be RZ_SPLIT_NOCOLOR (-1), or 0 and above"));
  }
  if (use->group.is_open) {
    return absl::FailedPreconditionError("a group is open; rz_group_end comes first");
  }
  absl::StatusOr<std::unique_ptr<Communicator>> split = use->communicator->Split(color, key);
  if (!split.ok()) return Outcome(*use, split.status());
  if (*split == nullptr) return absl::OkStatus();
  RZ_ASSIGN_OR_RETURN(*new_comm, MakeHandle(use->session, *std::move(split), use->settings));
  return absl::OkStatus();
}

// Whether nothing stands against the end of `comm`.
absl::Status CheckUnused(CommHandle& comm) {
  if (const int optimizers = comm.optimizers; optimizers > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "optimizers on this communicator: ", optimizers, "; rz_zero_destroy them first"));
  }
  if (!comm.buffers.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("buffers of this communicator: ", comm.buffers.size(),
                     "; give them back with rz_mem_free first"));
  }
  const auto under_way = std::count_if(comm.requests.begin(), comm.requests.end(),
                                       [](const auto& request) { return !Poll(*request); });
  if (under_way > 0 && comm.communicator->status().ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "requests whose operations are under way: ", under_way, "; rz_wait or rz_comm_abort"));
  }
  return absl::OkStatus();
}

absl::Status Destroy(rz_comm_t* comm) {
  std::shared_ptr<JobSession> session;  // outlives its use
  RZ_ASSIGN_OR_RETURN(CommUse use, CommUse::Enter(comm));
  session = use->session;
  RZ_RETURN_IF_ERROR(CheckUnused(*use));
  DropRequests(*use);
  const std::unique_ptr<CommHandle> ended(CommTable::Get().Close(use.TakePin()));
  return ended != nullptr ? absl::OkStatus() : BadHandle(comm, HandleKind::kCommunicator);
}

// What a communicator, or its job, has failed of, as far as calls have seen: while another thread
// is within one, that is for it to say.
absl::Status FailureOf(const CommHandle& comm) {
  absl::Status failure = comm.session->failure();
  if (!failure.ok()) return failure;
  const auto look = comm.session->Look();
  return look.has_value() ? comm.communicator->status() : absl::OkStatus();
}

}  // namespace
}  // namespace rz::c_api

using namespace rz::c_api;  // NOLINT: the functions below are its face

rz_result_t rz_comm_create(rz_job_t* job, const rz_comm_options_t* options, rz_comm_t** comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(comm, "comm"));
    *comm = nullptr;
    return Create(job, options, comm);
  });
}

rz_result_t rz_comm_split(rz_comm_t* comm, int32_t color, int32_t key, rz_comm_t** new_comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(new_comm, "new_comm"));
    *new_comm = nullptr;
    return Split(comm, color, key, new_comm);
  });
}

rz_result_t rz_comm_rebuild(rz_comm_t* failed, const rz_rebuild_options_t* options,
                            rz_comm_t** comm) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(comm, "comm"));
    *comm = nullptr;
    return Rebuild(failed, options, comm);
  });
}

rz_result_t rz_comm_destroy(rz_comm_t* comm) {
  return Guarded(__func__, [&] { return Destroy(comm); });
}

rz_result_t rz_comm_abort(rz_comm_t* comm, const char* cause) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, CommTable::Get().Find(comm));
    RZ_RETURN_IF_ERROR(CheckNotNull(cause, "cause"));
    Abort(*found, ErrorOf(RZ_ERROR_ABORTED, TextOf(cause)));
    return absl::OkStatus();
  });
}

rz_result_t rz_comm_get_error(rz_comm_t* comm, rz_result_t* result, char* text, size_t size) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, CommTable::Get().Find(comm));
    RZ_RETURN_IF_ERROR(CheckNotNull(result, "result"));
    const absl::Status failure = FailureOf(*found);
    *result = ResultOf(failure);
    if (text == nullptr || size == 0) return absl::OkStatus();
    const size_t length = std::min(size - 1, failure.message().size());
    std::memcpy(text, failure.message().data(), length);
    text[length] = '\0';
    return absl::OkStatus();
  });
}

rz_result_t rz_comm_rank(rz_comm_t* comm, int32_t* rank) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, CommTable::Get().Find(comm));
    RZ_RETURN_IF_ERROR(CheckNotNull(rank, "rank"));
    *rank = found->communicator->rank().value();
    return absl::OkStatus();
  });
}

rz_result_t rz_comm_count(rz_comm_t* comm, int32_t* count) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, CommTable::Get().Find(comm));
    RZ_RETURN_IF_ERROR(CheckNotNull(count, "count"));
    *count = found->communicator->world_size();
    return absl::OkStatus();
  });
}

rz_result_t rz_comm_hosts(rz_comm_t* comm, int32_t* hosts) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const CommUse use, CommUse::Enter(comm));
    RZ_RETURN_IF_ERROR(CheckNotNull(hosts, "hosts"));
    *hosts = use->communicator->hosts();
    return absl::OkStatus();
  });
}
