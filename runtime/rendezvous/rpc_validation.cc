// The checks a message passes before it becomes a request: sizes first, then characters, then
// numbers. Nothing is copied out of a message before its size has been compared with its limit.
#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/rendezvous/limits.h"
#include "runtime/rendezvous/rpc_handler.h"

namespace rz {
namespace {

absl::Status CheckSize(const char* field, const std::string& value, size_t min, size_t max) {
  if (value.size() >= min && value.size() <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", value.size(), " bytes; allowed are ", min, " to ", max));
}

// Length of the UTF-8 sequence at `text[i]`, 0 where there is none (RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF).
size_t Utf8Length(const std::string& text, size_t i) {
  const auto byte = [&](size_t at) -> unsigned {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
  };
  const auto continues = [&](size_t at) { return (byte(at) & 0xc0) == 0x80; };
  const unsigned first = byte(i), second = byte(i + 1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(i + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (first == 0xe0 && second < 0xa0) return 0;
    if (first == 0xed && second > 0x9f) return 0;
    return continues(i + 1) && continues(i + 2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (first == 0xf0 && second < 0x90) return 0;
    if (first == 0xf4 && second > 0x8f) return 0;
    return continues(i + 1) && continues(i + 2) && continues(i + 3) ? 4 : 0;
  }
  return 0;
}

// Text that may stand in a log line: UTF-8 without control characters.
absl::Status CheckText(const char* field, const std::string& value, size_t min, size_t max) {
  RZ_RETURN_IF_ERROR(CheckSize(field, value, min, max));
  for (size_t i = 0; i < value.size();) {
    const size_t length = Utf8Length(value, i);
    if (length == 0) {
      return absl::InvalidArgumentError(absl::StrCat(field, " is not UTF-8 at byte ", i));
    }
    if (absl::ascii_iscntrl(static_cast<unsigned char>(value[i]))) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " has a control character at byte ", i));
    }
    i += length;
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> ReadTimeout(int64_t milliseconds, absl::Duration by_default) {
  if (milliseconds < 0) {
    return absl::InvalidArgumentError(absl::StrCat("timeout of ", milliseconds, " ms is negative"));
  }
  if (milliseconds == 0) return by_default;
  return std::min(absl::Milliseconds(milliseconds), limits::kMaxTimeout);
}

absl::Status CheckRank(const char* field, int64_t rank) {
  if (rank >= 0 && rank < limits::kMaxWorldSize) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " ", rank, " is not within 0 to ", limits::kMaxWorldSize - 1));
}

}  // namespace

absl::Status CheckJobId(const std::string& job) {
  RZ_RETURN_IF_ERROR(CheckSize("job id", job, 1, limits::kMaxJobIdBytes));
  const auto allowed = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  if (!std::all_of(job.begin(), job.end(), allowed)) {
    return absl::InvalidArgumentError("job id may only have letters, digits, '.', '_' and '-'");
  }
  return absl::OkStatus();
}

absl::StatusOr<JoinRequest> ReadJoin(const pb::JoinRequest& request) {
  RZ_RETURN_IF_ERROR(CheckJobId(request.job()));
  RZ_RETURN_IF_ERROR(CheckSize("address", request.address(), 0, limits::kMaxAddressBytes));
  RZ_RETURN_IF_ERROR(CheckText("host", request.host(), 1, limits::kMaxHostBytes));
  JoinRequest read;
  read.job = request.job();
  // World size and rank are judged by Membership, which has the words for them.
  read.world_size = request.world_size();
  if (request.has_wanted_rank()) read.wanted_rank = request.wanted_rank();
  read.incarnation = Incarnation(request.incarnation());
  read.address = request.address();
  read.host = request.host();
  if (request.has_local_index()) {
    if (request.local_index() < 0 || request.local_index() > limits::kMaxLocalIndex) {
      return absl::InvalidArgumentError(absl::StrCat(
          "local index ", request.local_index(), " is not within 0 to ", limits::kMaxLocalIndex));
    }
    read.local_index = request.local_index();
  }
  read.launch = LaunchId(request.launch());
  read.protocol_major = request.protocol().major();
  read.protocol_minor = request.protocol().minor();
  read.config_hash = request.config_hash();
  RZ_ASSIGN_OR_RETURN(read.timeout, ReadTimeout(request.timeout_ms(), limits::kDefaultJoinTimeout));
  if (!request.has_survivor_of()) return read;
  RZ_ASSIGN_OR_RETURN(read.survivor_of, ReadMember(request.survivor_of()));
  if (read.survivor_of->job != read.job) {
    return absl::InvalidArgumentError("the survivor is of another job than the one it joins");
  }
  if (request.least_ranks() < 1 || request.least_ranks() > limits::kMaxWorldSize) {
    return absl::InvalidArgumentError(absl::StrCat("least ranks ", request.least_ranks(),
                                                   " is not within 1 to ", limits::kMaxWorldSize));
  }
  read.least_ranks = request.least_ranks();
  return read;
}

absl::StatusOr<MemberId> ReadMember(const pb::Member& member) {
  RZ_RETURN_IF_ERROR(CheckJobId(member.job()));
  RZ_RETURN_IF_ERROR(CheckRank("rank", member.rank()));
  if (member.epoch() < 1) {
    return absl::InvalidArgumentError(absl::StrCat("epoch ", member.epoch(), " is not positive"));
  }
  if (member.incarnation() == 0) {
    return absl::InvalidArgumentError("incarnation 0 names no process");
  }
  return MemberId{member.job(), Epoch(member.epoch()), Rank(member.rank()),
                  Incarnation(member.incarnation())};
}

absl::StatusOr<BarrierRequest> ReadBarrier(const pb::BarrierRequest& request) {
  BarrierRequest read;
  RZ_ASSIGN_OR_RETURN(read.member, ReadMember(request.member()));
  RZ_RETURN_IF_ERROR(CheckText("barrier id", request.id(), 1, limits::kMaxBarrierIdBytes));
  read.id = request.id();
  // One less than the largest number, so that counting on does not overflow.
  if (request.counter() < 0 || request.counter() == std::numeric_limits<int64_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("barrier counter ", request.counter(), " is out of range"));
  }
  read.counter = request.counter();
  if (request.participants_size() > limits::kMaxWorldSize) {
    return absl::InvalidArgumentError(absl::StrCat("barrier has ", request.participants_size(),
                                                   " participants; allowed are ",
                                                   limits::kMaxWorldSize));
  }
  read.participants.reserve(request.participants_size());
  for (const int32_t rank : request.participants()) {
    RZ_RETURN_IF_ERROR(CheckRank("barrier participant", rank));
    read.participants.push_back(Rank(rank));
  }
  RZ_ASSIGN_OR_RETURN(read.timeout,
                      ReadTimeout(request.timeout_ms(), limits::kDefaultBarrierTimeout));
  return read;
}

absl::StatusOr<FailureReport> ReadFailureReport(const pb::ReportFailureRequest& request) {
  RZ_RETURN_IF_ERROR(CheckJobId(request.job()));
  RZ_RETURN_IF_ERROR(CheckText("detail", request.detail(), 1, limits::kMaxDetailBytes));
  RZ_RETURN_IF_ERROR(CheckRank("rank", request.rank()));
  FailureReport read;
  read.job = request.job();
  if (request.epoch() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("epoch ", request.epoch(), " is negative"));
  }
  if (request.epoch() > 0) read.epoch = Epoch(request.epoch());
  read.rank = Rank(request.rank());
  read.detail = request.detail();
  read.launch = LaunchId(request.launch());
  switch (request.kind()) {
    case pb::FAILURE_KIND_ENDED:
      read.kind = FailureKind::kEnded;
      break;
    case pb::FAILURE_KIND_EXITED:
      read.kind = FailureKind::kExited;
      break;
    case pb::FAILURE_KIND_SELF:
      read.kind = FailureKind::kSelf;
      break;
    case pb::FAILURE_KIND_PEER:
      read.kind = FailureKind::kPeer;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("failure kind ", static_cast<int>(request.kind()), " is not known"));
  }
  if (request.has_reporter()) {
    RZ_ASSIGN_OR_RETURN(read.reporter, ReadMember(request.reporter()));
    if (read.reporter->job != read.job || read.reporter->epoch != read.epoch) {
      return absl::InvalidArgumentError("the reporter is of another job or epoch than its report");
    }
  }
  return read;
}

}  // namespace rz
