// The job token: a secret in a file that lets workers prove they belong to whoever started the
// rendezvous. Never on a command line, never in a log.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_TOKEN_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_TOKEN_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace rz {

// The contents of `path` without the white space at its end. An empty path gives an empty token,
// which means none.
//   InvalidArgument     shorter than limits::kMinTokenBytes, longer than kMaxTokenBytes, or with
//                       characters that metadata cannot carry
//   PermissionDenied    readable or writable by group or others: the message says what to do
//   NotFound, Internal  cannot be read; the message has errno
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// Takes as long for a nearly right guess as for a wrong one of the same length.
bool TokensEqual(std::string_view expected, std::string_view given);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_TOKEN_H_
