#include "runtime/job_environment.h"

#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/duration_text.h"
#include "runtime/base/status_macros.h"
#include "runtime/rendezvous/limits.h"

namespace rz {
namespace {

absl::StatusOr<absl::Duration> Timeout(const GetVariable& get, const char* name,
                                       absl::Duration by_default) {
  const std::optional<std::string> text = VariableText(get, name);
  if (!text.has_value()) return by_default;
  const std::optional<absl::Duration> value = ParseDuration(*text);
  if (!value || *value < JobEnvironment::kShortestTimeout ||
      *value > JobEnvironment::kLongestTimeout) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: ", name, "=", absl::CHexEscape(*text),
                     " is not a time such as 90s or 5m within ",
                     absl::FormatDuration(JobEnvironment::kShortestTimeout), " to ",
                     absl::FormatDuration(JobEnvironment::kLongestTimeout)));
  }
  return *value;
}

absl::StatusOr<uint64_t> LaunchNumber(const GetVariable& get) {
  const std::optional<std::string> text = VariableText(get, "RZ_LAUNCH");
  uint64_t value = 0;
  if (text.has_value() && !absl::SimpleAtoi(*text, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: RZ_LAUNCH=", absl::CHexEscape(*text), " is not a whole number"));
  }
  return value;
}

absl::Status CheckTogether(const JobEnvironment& environment, bool has_world_size) {
  if (!environment.rendezvous.empty() && !has_world_size) {
    return absl::InvalidArgumentError(
        "environment: RZ_RENDEZVOUS is set but RZ_WORLD_SIZE is not: say how many ranks there are");
  }
  if (environment.rendezvous.empty() && environment.world_size > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "environment: RZ_WORLD_SIZE=", environment.world_size,
        " but RZ_RENDEZVOUS is not set: say where the ranks meet (HOST:PORT of rz_rendezvous), or "
        "start them with rz_run"));
  }
  if (environment.rank.has_value() && environment.rank->value() >= environment.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: RZ_RANK=", environment.rank->value(),
                     " is outside the world of RZ_WORLD_SIZE=", environment.world_size));
  }
  return absl::OkStatus();
}

// What the launcher says, where RZ_WORLD_SIZE does not.
absl::Status TakeFrom(const LaunchedRank& launched, JobEnvironment* environment) {
  if (environment->rank.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "environment: RZ_RANK=", environment->rank->value(),
        " is set but RZ_WORLD_SIZE is not, and ", launched.launcher, " says rank ", launched.rank,
        " of ", launched.world_size, ": set both of RZ_RANK and RZ_WORLD_SIZE, or neither"));
  }
  environment->rank = Rank(launched.rank);
  environment->world_size = launched.world_size;
  if (!environment->local_rank.has_value()) environment->local_rank = launched.local_rank;
  if (environment->rendezvous.empty() && launched.world_size > 1) {
    RZ_ASSIGN_OR_RETURN(environment->meeting, launched.meeting);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobEnvironment> JobEnvironment::Parse(const GetVariable& get) {
  JobEnvironment environment;
  environment.rendezvous = VariableText(get, "RZ_RENDEZVOUS").value_or("");
  const std::optional<std::string> job = VariableText(get, "RZ_JOB");
  environment.job = job.value_or(environment.job);
  environment.token_file = VariableText(get, "RZ_TOKEN_FILE").value_or("");
  RZ_ASSIGN_OR_RETURN(const std::optional<int> world_size,
                      VariableNumber(get, "RZ_WORLD_SIZE", 1, limits::kMaxWorldSize));
  environment.world_size = world_size.value_or(1);
  RZ_ASSIGN_OR_RETURN(const std::optional<int> rank,
                      VariableNumber(get, "RZ_RANK", 0, limits::kMaxWorldSize - 1));
  if (rank.has_value()) environment.rank = Rank(*rank);
  RZ_ASSIGN_OR_RETURN(
      environment.local_rank,
      VariableNumber(get, "RZ_LOCAL_RANK", 0, static_cast<int>(limits::kMaxLocalIndex)));
  RZ_ASSIGN_OR_RETURN(environment.launch, LaunchNumber(get));
  RZ_ASSIGN_OR_RETURN(environment.connect_timeout,
                      Timeout(get, "RZ_CONNECT_TIMEOUT", environment.connect_timeout));
  RZ_ASSIGN_OR_RETURN(environment.join_timeout,
                      Timeout(get, "RZ_JOIN_TIMEOUT", environment.join_timeout));
  if (!world_size.has_value()) {
    RZ_ASSIGN_OR_RETURN(const std::optional<LaunchedRank> launched, FindLaunchedRank(get));
    if (launched.has_value()) {
      RZ_RETURN_IF_ERROR(TakeFrom(*launched, &environment));
      if (!job.has_value() && environment.meeting && !environment.meeting->job.empty()) {
        environment.job = environment.meeting->job;
      }
      return environment;
    }
  }
  RZ_RETURN_IF_ERROR(CheckTogether(environment, world_size.has_value()));
  return environment;
}

absl::StatusOr<JobEnvironment> JobEnvironment::FromProcess() {
  return Parse([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace rz
