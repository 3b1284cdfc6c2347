// Jobs of the C interface: what options do not say, the environment does.
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/simd_level.h"
#include "runtime/base/status_macros.h"
#include "runtime/c_api/c_api.h"
#include "runtime/c_api/job_session.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/transport/ucx/ucx_transport.h"

namespace rz::c_api {
namespace {

absl::Status CheckNumber(const char* name, int32_t value, int32_t least, int32_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, "; it may be ", least, " to ", most));
}

// The environment, with what the options say put in its place before it is checked as a whole.
absl::StatusOr<JobEnvironment> ReadEnvironment(const rz_job_options_t& options) {
  RZ_RETURN_IF_ERROR(
      CheckNumber("world_size", options.world_size, 0, static_cast<int>(limits::kMaxWorldSize)));
  RZ_RETURN_IF_ERROR(
      CheckNumber("rank", options.rank, RZ_RANK_ANY, static_cast<int>(limits::kMaxWorldSize) - 1));
  const std::string world_size = options.world_size == 0 ? "" : absl::StrCat(options.world_size);
  const std::string rank = options.rank == RZ_RANK_ANY ? "" : absl::StrCat(options.rank);
  const auto given = [&](std::string_view name) -> const char* {
    if (name == "RZ_RENDEZVOUS") return options.rendezvous;
    if (name == "RZ_JOB") return options.job;
    if (name == "RZ_WORLD_SIZE") return world_size.c_str();
    if (name == "RZ_RANK") return rank.c_str();
    if (name == "RZ_TOKEN_FILE") return options.token_file;
    return nullptr;
  };
  RZ_ASSIGN_OR_RETURN(JobEnvironment environment, JobEnvironment::Parse([&](const char* name) {
                        const char* const value = given(name);
                        return value != nullptr && *value != '\0' ? value : std::getenv(name);
                      }));
  RZ_ASSIGN_OR_RETURN(environment.connect_timeout,
                      ReadSeconds(options.connect_timeout, "connect_timeout",
                                  environment.connect_timeout, JobEnvironment::kLongestTimeout));
  RZ_ASSIGN_OR_RETURN(environment.join_timeout,
                      ReadSeconds(options.join_timeout, "join_timeout", environment.join_timeout,
                                  JobEnvironment::kLongestTimeout));
  return environment;
}

absl::StatusOr<UcxOptions> ReadTransport(const std::string& name) {
  UcxOptions options;
  if (name == "tcp") {
    options.transports = UcxOptions::Transports::kTcp;
  } else if (name == "shm") {
    options.transports = UcxOptions::Transports::kSharedMemory;
  } else if (!name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("transport is \"", absl::CHexEscape(name), "\"; it may be tcp, shm, or NULL"));
  }
  return options;
}

absl::Status Init(const rz_job_options_t* given, rz_job_t** job) {
  RZ_ASSIGN_OR_RETURN(const rz_job_options_t options,
                      ReadOptions(given, rz_job_options_t(RZ_JOB_OPTIONS_INIT)));
  RZ_ASSIGN_OR_RETURN(const JobEnvironment environment, ReadEnvironment(options));
  RZ_ASSIGN_OR_RETURN(const UcxOptions transport_options, ReadTransport(TextOf(options.transport)));
  RZ_RETURN_IF_ERROR(ChooseSimdLevel().status());
  GuardAgainstForks();
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, CreateUcxTransport(transport_options));
  JobOptions job_options;
  job_options.config_hash = options.agreement;
  RZ_ASSIGN_OR_RETURN(std::unique_ptr<Job> joined,
                      Job::Join(environment, std::move(transport), job_options));
  const bool only_network = transport_options.transports == UcxOptions::Transports::kTcp;
  const auto session = std::make_shared<JobSession>(
      std::move(joined), only_network,
      [transport_options] { return CreateUcxTransport(transport_options); });
  auto handle = std::make_unique<JobHandle>(session);
  RZ_ASSIGN_OR_RETURN(void* const value, JobTable::Get().Insert(handle.get()));
  session->set_handle(value);
  static_cast<void>(handle.release());  // the table's
  *job = static_cast<rz_job_t*>(value);
  return absl::OkStatus();
}

absl::Status Finalize(rz_job_t* job) {
  RZ_ASSIGN_OR_RETURN(auto found, JobTable::Get().Find(job));
  const std::shared_ptr<JobSession> session = found->session();
  RZ_ASSIGN_OR_RETURN(const auto use, session->Enter());
  if (const int communicators = session->communicators; communicators > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("communicators of the job that are still there: ", communicators,
                     "; rz_comm_destroy them first"));
  }
  const std::unique_ptr<JobHandle> ended(JobTable::Get().Close(std::move(found)));
  if (ended == nullptr) return BadHandle(job, HandleKind::kJob);
  const absl::Status left = session->Leave();
  return session->failure().ok() ? left : absl::OkStatus();
}

}  // namespace
}  // namespace rz::c_api

using namespace rz::c_api;  // NOLINT: the functions below are its face

rz_result_t rz_init(const rz_job_options_t* options, rz_job_t** job) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_RETURN_IF_ERROR(CheckNotNull(job, "job"));
    *job = nullptr;
    return Init(options, job);
  });
}

rz_result_t rz_job_rank(rz_job_t* job, int32_t* rank) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, JobTable::Get().Find(job));
    RZ_RETURN_IF_ERROR(CheckNotNull(rank, "rank"));
    *rank = found->session()->job().rank().value();
    return absl::OkStatus();
  });
}

rz_result_t rz_job_world_size(rz_job_t* job, int32_t* world_size) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, JobTable::Get().Find(job));
    RZ_RETURN_IF_ERROR(CheckNotNull(world_size, "world_size"));
    *world_size = found->session()->job().world_size();
    return absl::OkStatus();
  });
}

rz_result_t rz_job_barrier(rz_job_t* job, const char* id, double timeout) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, JobTable::Get().Find(job));
    RZ_RETURN_IF_ERROR(CheckNotNull(id, "id"));
    const std::string name = TextOf(id);
    if (name.empty() || name.size() > rz::limits::kMaxBarrierIdBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the id has ", name.size(), " bytes; it may have 1 to ", rz::limits::kMaxBarrierIdBytes));
    }
    RZ_ASSIGN_OR_RETURN(const absl::Duration time,
                        ReadSeconds(timeout, "timeout", rz::limits::kDefaultBarrierTimeout,
                                    rz::limits::kMaxTimeout));
    const std::shared_ptr<JobSession> session = found->session();
    RZ_ASSIGN_OR_RETURN(const auto use, session->Enter());
    return session->job().Barrier(name, time);
  });
}

rz_result_t rz_job_fail(rz_job_t* job, const char* cause) {
  return Guarded(__func__, [&]() -> absl::Status {
    RZ_ASSIGN_OR_RETURN(const auto found, JobTable::Get().Find(job));
    RZ_RETURN_IF_ERROR(CheckNotNull(cause, "cause"));
    const absl::Status failure = ErrorOf(RZ_ERROR_ABORTED, TextOf(cause));
    const std::shared_ptr<JobSession> session = found->session();
    session->Keep(failure);
    session->job().transport()->Abort(failure);
    session->job().ReportFailure(failure);
    return absl::OkStatus();
  });
}

rz_result_t rz_finalize(rz_job_t* job) {
  return Guarded(__func__, [&] { return Finalize(job); });
}
