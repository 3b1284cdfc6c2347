#include "collectives/flight/flight_dump.h"

#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "collectives/limits.h"
#include "proto/flight_record.pb.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

constexpr uint32_t kFormatVersion = 1;

void SetTime(absl::Time time, google::protobuf::Timestamp* to) {
  const int64_t seconds = absl::ToUnixSeconds(time);
  to->set_seconds(seconds);
  to->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

absl::Time TimeOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

proto::FlightOperation::State ToProto(FlightState state) {
  switch (state) {
    case FlightState::kStarted:
      return proto::FlightOperation::STARTED;
    case FlightState::kDone:
      return proto::FlightOperation::DONE;
    case FlightState::kFailed:
      return proto::FlightOperation::FAILED;
  }
  return proto::FlightOperation::STATE_UNSPECIFIED;
}

void ToProto(const FlightEntry& entry, proto::FlightOperation* to) {
  to->set_number(entry.number);
  to->set_kind(entry.kind);
  to->set_dtype(entry.dtype);
  to->set_op(entry.op);
  to->set_count(entry.count);
  to->set_root(entry.root);
  to->set_algorithm(entry.algorithm);
  to->set_call_hash(entry.call_hash);
  to->set_state(ToProto(entry.state));
  if (entry.position.lane >= 0) {
    to->mutable_position()->set_lane(entry.position.lane);
    to->mutable_position()->set_round(entry.position.round);
    to->mutable_position()->set_peer(entry.position.peer);
  }
  SetTime(entry.started, to->mutable_started());
  if (entry.ended != absl::InfiniteFuture()) SetTime(entry.ended, to->mutable_ended());
}

absl::StatusOr<FlightState> StateOf(const proto::FlightOperation& from) {
  switch (from.state()) {
    case proto::FlightOperation::STARTED:
      return FlightState::kStarted;
    case proto::FlightOperation::DONE:
      return FlightState::kDone;
    case proto::FlightOperation::FAILED:
      return FlightState::kFailed;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("operation ", from.number(), " has no known state"));
  }
}

absl::StatusOr<FlightEntry> FromProto(const proto::FlightOperation& from) {
  FlightEntry entry;
  entry.number = from.number();
  entry.kind = from.kind();
  entry.dtype = from.dtype();
  entry.op = from.op();
  entry.count = from.count();
  entry.root = from.root();
  entry.algorithm = from.algorithm();
  entry.call_hash = from.call_hash();
  RZ_ASSIGN_OR_RETURN(entry.state, StateOf(from));
  if (from.has_position()) {
    entry.position = {from.position().lane(), from.position().round(), from.position().peer()};
  }
  entry.started = TimeOf(from.started());
  entry.ended = from.has_ended() ? TimeOf(from.ended()) : absl::InfiniteFuture();
  return entry;
}

absl::Status CheckNumbers(const proto::FlightRecord& record) {
  if (record.world_size() < 1 || record.rank() < 0 || record.rank() >= record.world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", record.rank(), " of a world of ", record.world_size()));
  }
  if (record.operations_size() > kMaxFlightEntries) {
    return absl::InvalidArgumentError(absl::StrCat(
        record.operations_size(), " operations, at most ", kMaxFlightEntries, " are read"));
  }
  int64_t before = 0;
  for (const proto::FlightOperation& operation : record.operations()) {
    if (operation.number() <= before || operation.number() > record.last_number()) {
      return absl::InvalidArgumentError(
          absl::StrCat("operation ", operation.number(), " after operation ", before,
                       ", where the last one is ", record.last_number()));
    }
    before = operation.number();
  }
  return absl::OkStatus();
}

absl::Status SystemError(const std::string& what, const std::string& path, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error)));
}

}  // namespace

std::string FlightRecordToJson(const FlightRecord& record) {
  proto::FlightRecord message;
  message.set_format_version(kFormatVersion);
  message.set_job(record.job);
  message.set_rank(record.rank);
  message.set_world_size(record.world_size);
  message.set_job_rank(record.job_rank);
  message.set_communicator(record.communicator);
  message.set_reason(record.reason);
  SetTime(record.taken, message.mutable_taken());
  message.set_last_number(record.last_number);
  for (const FlightEntry& entry : record.entries) ToProto(entry, message.add_operations());
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails for times outside of the years 1 to 9999 alone.
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : std::string();
}

absl::StatusOr<FlightRecord> ParseFlightRecord(std::string_view json) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  proto::FlightRecord message;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data(), json.size()), &message, options);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no flight record: ", std::string(status.message())));
  }
  if (message.format_version() < 1 || message.format_version() > kFormatVersion) {
    return absl::InvalidArgumentError(absl::StrCat("no flight record of format ", kFormatVersion,
                                                   ", which is what this program reads, but of ",
                                                   message.format_version()));
  }
  RZ_RETURN_IF_ERROR(CheckNumbers(message));
  FlightRecord record;
  record.job = message.job();
  record.rank = message.rank();
  record.world_size = message.world_size();
  record.job_rank = message.job_rank();
  record.communicator = message.communicator();
  record.reason = message.reason();
  record.taken = TimeOf(message.taken());
  record.last_number = message.last_number();
  for (const proto::FlightOperation& operation : message.operations()) {
    RZ_ASSIGN_OR_RETURN(FlightEntry entry, FromProto(operation));
    record.entries.push_back(std::move(entry));
  }
  return record;
}

std::string FlightFileName(const FlightRecord& record) {
  std::string job = record.job;
  for (char& c : job) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  }
  const std::string communicator =
      record.communicator == 0 ? "" : absl::StrCat("-", record.communicator);
  return absl::StrCat("flight-", job, "-", record.job_rank, communicator, ".json");
}

absl::Status WriteFlightRecord(const FlightRecord& record, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return SystemError("make the directory", directory, error.value());
  const std::string path = absl::StrCat(directory, "/", FlightFileName(record));
  const std::string part = absl::StrCat(path, ".", getpid(), ".part");
  errno = 0;
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << FlightRecordToJson(record);
  file.close();
  if (!file) {
    const int reason = errno;
    std::remove(part.c_str());
    return SystemError("write", part, reason);
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) return SystemError("write", path, errno);
  return absl::OkStatus();
}

}  // namespace rz
