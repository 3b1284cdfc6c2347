// What every function of the C interface has in common: it refuses to work in a forked child, lets
// no exception out, turns an absl::Status into an rz_result_t and keeps its words for
// rz_last_error; and reads and writes structs by the size that the caller says.
#ifndef RINGZERO_RUNTIME_C_API_CALL_SCOPE_H_
#define RINGZERO_RUNTIME_C_API_CALL_SCOPE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/status_macros.h"
#include "runtime/c_api/c_api.h"

namespace rz::c_api {

// A failure that absl has no code for.
absl::Status ErrorOf(rz_result_t result, const std::string& text);

// What a status is told to the caller as.
rz_result_t ResultOf(const absl::Status& status);

// Keeps "function: message" for rz_last_error of this thread, unless `status` is OK.
rz_result_t Report(const char* function, const absl::Status& status);

// Those words; "" where nothing has failed.
const char* LastErrorText();

// From the first thing that is made on: a child that is forked later is not to use it.
void GuardAgainstForks();

// FORKED in a child that was forked after GuardAgainstForks.
absl::Status CheckNotForked();

// `body` makes an absl::Status; it is not called in a forked child.
template <typename Body>
rz_result_t Guarded(const char* function, const Body& body) {
  try {
    absl::Status status = CheckNotForked();
    if (status.ok()) status = body();
    if (status.ok()) [[likely]]
      return RZ_OK;
    return Report(function, status);
  } catch (const std::bad_alloc&) {
    return Report(function, absl::ResourceExhaustedError("out of memory"));
  } catch (const std::exception& exception) {
    return Report(function, absl::InternalError(exception.what()));
  } catch (...) {
    return Report(function, absl::InternalError("unknown exception"));
  }
}

// InvalidArgument where it is null.
inline absl::Status CheckNotNull(const void* pointer, const char* name) {
  if (pointer != nullptr) [[likely]]
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is NULL"));
}

// "" for null.
inline std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

// Seconds that a caller gave; `by_default` for 0.
//   InvalidArgument  negative, not a number, or beyond `longest`
absl::StatusOr<absl::Duration> ReadSeconds(double seconds, const char* name,
                                           absl::Duration by_default, absl::Duration longest);

// `size`, as the caller's struct has it, is at least that of the first version (`least`) and not
// absurd.
absl::Status CheckStructSize(size_t size, size_t least);

// InvalidArgument where bytes [from, to) are not all zero: the caller knows options this library
// does not.
absl::Status CheckUnknownOptions(const void* options, size_t from, size_t to);

// The caller's options, or `defaults` where there are none, or for the fields that the caller does
// not know. T's first member is its size; `least` is that of its first version.
//   InvalidArgument  a size that cannot be
//   Unimplemented    options this library does not know
template <typename T>
absl::StatusOr<T> ReadOptions(const T* given, const T& defaults, size_t least = sizeof(T)) {
  T options = defaults;
  if (given == nullptr) return options;
  const size_t size = given->size;
  RZ_RETURN_IF_ERROR(CheckStructSize(size, least));
  RZ_RETURN_IF_ERROR(CheckUnknownOptions(given, sizeof(T), size));
  std::memcpy(&options, given, std::min(size, sizeof(T)));
  options.size = sizeof(T);
  return options;
}

// Checks a struct that is to be filled, before anything is done for it.
template <typename T>
absl::Status CheckReport(const T* report, const char* name, size_t least = sizeof(T)) {
  RZ_RETURN_IF_ERROR(CheckNotNull(report, name));
  return CheckStructSize(report->size, least);
}

// Fills what the caller knows of T, with zeros in what this library does not; the size stays.
template <typename T>
void WriteReport(T values, T* report) {
  const size_t size = report->size;
  std::memset(report, 0, size);
  std::memcpy(report, &values, std::min(size, sizeof(T)));
  report->size = size;
}

}  // namespace rz::c_api

#endif  // RINGZERO_RUNTIME_C_API_CALL_SCOPE_H_
