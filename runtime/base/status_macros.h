// Propagation of absl::Status without exceptions.
#ifndef RINGZERO_RUNTIME_BASE_STATUS_MACROS_H_
#define RINGZERO_RUNTIME_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RZ_STATUS_CONCAT_INNER(a, b) a##b
#define RZ_STATUS_CONCAT(a, b) RZ_STATUS_CONCAT_INNER(a, b)

// Returns from the enclosing function with the status of `expression` unless it is OK.
#define RZ_RETURN_IF_ERROR(expression)                                       \
  do {                                                                       \
    if (absl::Status rz_status = (expression); !rz_status.ok()) [[unlikely]] \
      return rz_status;                                                      \
  } while (false)

// RZ_ASSIGN_OR_RETURN(auto value, Compute()): the value, or a return with the status.
#define RZ_ASSIGN_OR_RETURN(lhs, expression) \
  RZ_ASSIGN_OR_RETURN_INNER(RZ_STATUS_CONCAT(rz_or_, __LINE__), lhs, expression)
#define RZ_ASSIGN_OR_RETURN_INNER(or_value, lhs, expression) \
  auto or_value = (expression);                              \
  if (!or_value.ok()) [[unlikely]]                           \
    return std::move(or_value).status();                     \
  lhs = std::move(or_value).value()

#endif  // RINGZERO_RUNTIME_BASE_STATUS_MACROS_H_
