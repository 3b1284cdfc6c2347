// Results in words, versions, features, and what is wrong with a handle.
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runtime/c_api/c_api.h"
#include "runtime/c_api/handle_table.h"

#define RZ_TEXT_OF(x) #x
#define RZ_TEXT(x) RZ_TEXT_OF(x)

namespace rz::c_api {
namespace {

constexpr char kVersion[] =
    RZ_TEXT(RZ_VERSION_MAJOR) "." RZ_TEXT(RZ_VERSION_MINOR) "." RZ_TEXT(RZ_VERSION_PATCH);

constexpr char kFeatures[] =
    "host tcp shared_memory hierarchy groups messages split premul_sum reduce_function rebuild "
    "float8 zero "
    "flight_record";

const char* NameOf(HandleKind kind) {
  switch (kind) {
    case HandleKind::kServer:
      return "server";
    case HandleKind::kJob:
      return "job";
    case HandleKind::kCommunicator:
      return "communicator";
    case HandleKind::kRequest:
      return "request";
    case HandleKind::kOptimizer:
      return "optimizer";
  }
  return nullptr;
}

}  // namespace

absl::Status BadHandle(const void* handle, HandleKind kind) {
  const char* const wanted = NameOf(kind);
  if (handle == nullptr) {
    return ErrorOf(RZ_ERROR_INVALID_HANDLE, absl::StrCat("the ", wanted, " is NULL"));
  }
  const auto found = static_cast<HandleKind>(reinterpret_cast<uint64_t>(handle) & 0xff);
  if (found == kind) {
    return ErrorOf(RZ_ERROR_INVALID_HANDLE,
                   absl::StrCat("there is no such ", wanted, ": it was ended, or never made"));
  }
  const char* const other = NameOf(found);
  return ErrorOf(
      RZ_ERROR_INVALID_HANDLE,
      absl::StrCat("this is no ", wanted, other == nullptr ? "" : absl::StrCat(" but a ", other)));
}

}  // namespace rz::c_api

const char* rz_strerror(rz_result_t result) {
  switch (result) {
    case RZ_OK:
      return "ok";
    case RZ_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case RZ_ERROR_INVALID_HANDLE:
      return "invalid handle";
    case RZ_ERROR_WRONG_THREAD:
      return "another thread is within a call";
    case RZ_ERROR_FORKED:
      return "forked process";
    case RZ_ERROR_FAILED_PRECONDITION:
      return "failed precondition";
    case RZ_ERROR_TIMEOUT:
      return "timed out";
    case RZ_ERROR_UNAVAILABLE:
      return "a rank or the rendezvous is unavailable";
    case RZ_ERROR_ABORTED:
      return "aborted";
    case RZ_ERROR_OUT_OF_MEMORY:
      return "out of memory";
    case RZ_ERROR_UNSUPPORTED:
      return "unsupported";
    case RZ_ERROR_PERMISSION_DENIED:
      return "permission denied";
    case RZ_ERROR_ALREADY_EXISTS:
      return "already exists";
    case RZ_ERROR_OUT_OF_RANGE:
      return "out of range";
    case RZ_ERROR_LIBRARY:
      return "the library is incomplete or of another version";
    case RZ_ERROR_INTERNAL:
      return "internal error";
    default:
      return "unknown result";
  }
}

int32_t rz_version(void) {
  return RZ_VERSION_MAJOR * 1000000 + RZ_VERSION_MINOR * 1000 + RZ_VERSION_PATCH;
}

const char* rz_version_string(void) { return rz::c_api::kVersion; }

const char* rz_features(void) { return rz::c_api::kFeatures; }

int32_t rz_has_feature(const char* name) {
  if (name == nullptr || *name == '\0' || std::strchr(name, ' ') != nullptr) return 0;
  std::string_view left = rz::c_api::kFeatures;
  while (!left.empty()) {
    const size_t end = std::min(left.find(' '), left.size());
    if (left.substr(0, end) == name) return 1;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return 0;
}
