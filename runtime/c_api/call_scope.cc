#include "runtime/c_api/call_scope.h"

#include <pthread.h>

#include <atomic>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
namespace rz::c_api {
namespace {

// The payload by which a status carries the result it is told as.
constexpr char kResultPayload[] = "rz_result_t";

// A struct larger than this is none: its size was not set.
constexpr size_t kMaxStructSize = 4096;

std::atomic<bool> forked{false};

// Trivially destroyed text would be too short, and a std::string is destroyed with its thread, so
// that what rz_last_error gave away is valid until then.
std::string& LastError() {
  thread_local std::string text;
  return text;
}

absl::StatusCode CodeFor(rz_result_t result) {
  switch (result) {
    case RZ_ERROR_INVALID_HANDLE:
      return absl::StatusCode::kInvalidArgument;
    case RZ_ERROR_ABORTED:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kFailedPrecondition;
  }
}

}  // namespace

absl::Status ErrorOf(rz_result_t result, const std::string& text) {
  absl::Status status(CodeFor(result), text);
  status.SetPayload(kResultPayload, absl::Cord(absl::StrCat(result)));
  return status;
}

rz_result_t ResultOf(const absl::Status& status) {
  if (status.ok()) return RZ_OK;
  if (const auto payload = status.GetPayload(kResultPayload); payload.has_value()) {
    int32_t result = RZ_ERROR_INTERNAL;
    if (absl::SimpleAtoi(std::string(*payload), &result)) return result;
  }
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return RZ_ERROR_INVALID_ARGUMENT;
    case absl::StatusCode::kFailedPrecondition:
      return RZ_ERROR_FAILED_PRECONDITION;
    case absl::StatusCode::kDeadlineExceeded:
      return RZ_ERROR_TIMEOUT;
    case absl::StatusCode::kUnavailable:
      return RZ_ERROR_UNAVAILABLE;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
      return RZ_ERROR_ABORTED;
    case absl::StatusCode::kResourceExhausted:
      return RZ_ERROR_OUT_OF_MEMORY;
    case absl::StatusCode::kUnimplemented:
      return RZ_ERROR_UNSUPPORTED;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return RZ_ERROR_PERMISSION_DENIED;
    case absl::StatusCode::kAlreadyExists:
      return RZ_ERROR_ALREADY_EXISTS;
    case absl::StatusCode::kOutOfRange:
      return RZ_ERROR_OUT_OF_RANGE;
    default:
      return RZ_ERROR_INTERNAL;
  }
}

rz_result_t Report(const char* function, const absl::Status& status) {
  try {
    LastError() = absl::StrCat(function, ": ", status.message());
  } catch (...) {
    LastError().clear();
  }
  return ResultOf(status);
}

const char* LastErrorText() { return LastError().c_str(); }

void GuardAgainstForks() {
  static const int guarded = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  static_cast<void>(guarded);
}

absl::Status CheckNotForked() {
  if (!forked.load(std::memory_order_relaxed)) [[likely]]
    return absl::OkStatus();
  return ErrorOf(RZ_ERROR_FORKED,
                 "this process was forked from one that had used ringzero, which threads and "
                 "connections do not survive; exec a program, or fork before the first call");
}

absl::StatusOr<absl::Duration> ReadSeconds(double seconds, const char* name,
                                           absl::Duration by_default, absl::Duration longest) {
  if (seconds == 0) return by_default;
  if (!(seconds > 0) || absl::Seconds(seconds) > longest) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", seconds,
                                                   " seconds; it may be 0 for the default, or up "
                                                   "to ",
                                                   absl::ToInt64Seconds(longest)));
  }
  return absl::Seconds(seconds);
}

absl::Status CheckStructSize(size_t size, size_t least) {
  if (size >= least && size <= kMaxStructSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the struct says that its size is ", size,
                                                 " bytes, and has at least ", least,
                                                 "; begin with its RZ_..._INIT"));
}

absl::Status CheckUnknownOptions(const void* options, size_t from, size_t to) {
  const auto* const bytes = static_cast<const unsigned char*>(options);
  for (size_t i = from; i < to; ++i) {
    if (bytes[i] != 0) {
      return absl::UnimplementedError(
          absl::StrCat("an option at byte ", i,
                       " is set, which this version of ringzero does not have; leave it 0 or use "
                       "a newer library"));
    }
  }
  return absl::OkStatus();
}

}  // namespace rz::c_api

// Here because it reads what Report keeps.
extern "C" const char* rz_last_error(void) { return rz::c_api::LastErrorText(); }
